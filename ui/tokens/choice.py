"""The Tokens page's choices and the computations that depend on them."""

from dataclasses import dataclass

from figures.tokens import ADDED
from transformer.measures.vocabulary import Neighbours, PieceKind, piece_length
from transformer.text.tokenizer import Tokenizer
from transformer.trace.position_vectors import TextSide
from ui.core import url_state
from ui.core.url_state import Param
from ui.core.view import View
from ui.core.widgets import Choice
from ui.tokens import views
from ui.tokens.views import MOST_CUTS, Plane, Reading, Segmentation
from ui.work.desk import computed
from ui.work.results import Computation, once

SIDES = ("source", "translation")


@dataclass(frozen=True)
class TokensChoice(Choice):
    """URL parameters; `token` is the selected id, or None for the default in `token_now`."""

    side: Param[str] = Param("tokens_of", url_state.one_of(SIDES), "source")
    token: Param[int | None] = Param("token", url_state.whole(0, 9_999_999), None, of="model")
    cut: Param[int] = Param("cut", url_state.whole(1, MOST_CUTS), 1, of="text")
    dropout: Param[float] = Param("merge_dropout", url_state.number(0, 1), 0.1)
    cut_seed: Param[int] = Param("cut_seed", url_state.whole(0, 9_999), 0)
    find: Param[str] = Param("find", str, "")
    count: Param[int] = Param("neighbours", url_state.whole(3, 30), 10)
    shown: Param[str] = Param("vectors", url_state.one_of(ADDED), "both")
    background: Param[int] = Param("background", url_state.whole(0, 2_000), 0)

    @classmethod
    def enter(cls, view: View) -> None:
        """Forget choices made for another sentence or vocabulary."""
        now = cls.read()
        text = view.checkpoint, view.sentence, now.side, now.dropout, now.cut_seed
        url_state.settle(text=text)


def side_now() -> TextSide:
    """Return the chosen side."""
    return "source" if url_state.get(TokensChoice.side) == "source" else "translation"


def token_now(reading: Reading, vocab_size: int) -> int:
    """Return the selected token id, by default the longest piece in the text."""
    chosen = url_state.get(TokensChoice.token)
    if chosen is not None and chosen < vocab_size:
        return chosen
    ordinary = set(range(len(reading.ids))).difference(reading.special, reading.unknown)
    longest = max(sorted(ordinary), key=lambda at: piece_length(reading.pieces[at]), default=0)
    return reading.ids[longest]


def get_reading(view: View, side: TextSide) -> Reading:
    """Return one side's text in pieces, for a model with an available vocabulary."""
    return computed(view, Computation.of(views.read_side, side, view.request.sentence))


def get_kinds(view: View, tokenizer: Tokenizer, side: TextSide) -> tuple[PieceKind, ...]:
    """Return the kind of each piece in a side's vocabulary."""
    return once(("kinds", view.entry.ref, side), lambda: views.kinds_of(tokenizer))


def other_cuts_of(reading: Reading, tokenizer: Tokenizer) -> Computation[tuple[Segmentation, ...]]:
    """Return the computation of a text's segmentations under current settings."""
    dropout, seed = url_state.get(TokensChoice.dropout), url_state.get(TokensChoice.cut_seed)
    text = reading.typed
    return Computation(
        "cuts", (reading.side, dropout, seed),
        lambda model, trace: views.cuts_of(tokenizer, text, dropout, seed),
    )  # fmt: skip


def near_token(side: TextSide, token: int) -> Computation[dict[str, Neighbours]]:
    """Return the computation of a token's nearest neighbours."""
    count = url_state.get(TokensChoice.count)
    return Computation(
        "near", (side, token, count), lambda model, trace: views.near(model, token, count, side)
    )


def vectors(side: TextSide) -> Computation[Plane]:
    """Return the computation of one side's embedding plane."""
    return Computation.of(views.plane_of, side, url_state.get(TokensChoice.background))
