"""Results of the Tokens page, shared by all sessions."""

from __future__ import annotations

from transformer.measures.vocabulary import Neighbours, PieceKind
from transformer.text.tokenizer import Tokenizer
from transformer.trace.embeddings import TextSide
from ui.core import url_state
from ui.core.view import View
from ui.tokens.choice import TokensChoice
from ui.tokens.views import (
    Plane,
    Reading,
    Segmentation,
    cuts_of,
    kinds_of,
    near,
    plane_of,
    read_side,
)
from ui.work.cache import Computation, computed
from ui.work.results import once


def get_reading(view: View, side: TextSide) -> Reading:
    """Return one side's text in pieces, of a model whose vocabulary is available."""
    return computed(view, *reading_of(view, side))


def reading_of(view: View, side: TextSide) -> Computation[Reading]:
    """Return the computation of `get_reading`."""
    typed = view.request.sentence
    return Computation("reading", side, lambda model, trace: read_side(model, trace, side, typed))


def get_kinds(view: View, tokenizer: Tokenizer, side: TextSide) -> tuple[PieceKind, ...]:
    """Return the kind of every piece in a side's vocabulary."""
    return once(("kinds", view.entry.ref, side), lambda: kinds_of(tokenizer))


def other_cuts_of(reading: Reading, tokenizer: Tokenizer) -> Computation[tuple[Segmentation, ...]]:
    """Return the computation of a text's segmentations, by the settings."""
    dropout, seed = url_state.get(TokensChoice.dropout), url_state.get(TokensChoice.cut_seed)
    text = reading.typed
    return Computation(
        "cuts", (reading.side, dropout, seed),
        lambda model, trace: cuts_of(tokenizer, text, dropout, seed),
    )  # fmt: skip


def near_token(side: TextSide, token: int, count: int) -> Computation[dict[str, Neighbours]]:
    """Return the computation of a token's nearest neighbours."""
    return Computation(
        "near", (side, token, count), lambda model, trace: near(model, token, count, side)
    )


def vectors(side: TextSide, n_background: int) -> Computation[Plane]:
    """Return the computation of one side's embeddings in a plane."""
    return Computation(
        "plane", (side, n_background),
        lambda model, trace: plane_of(model, trace, side, n_background),
    )  # fmt: skip
