"""How the tokenizer of each side cuts its text: the pieces with their numbers, and what differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import streamlit as st

from figures.exhibit import Exhibit, Series
from figures.markdown import code, plain
from transformer.measures.words import group_labels, word_groups
from transformer.trace.embeddings import Side
from transformer.trace.records import Trace
from transformer.translator import Translator
from ui.compare.choice import Setup
from ui.compare.sides import LETTERS, Bar, link_page, offer_both, page_of, rows, view_of
from ui.components.cut import Piece
from ui.components.cut.mount import sentence_pieces
from ui.core import url_state
from ui.core.url_state import Param
from ui.core.view import View
from ui.core.widgets import bound
from ui.export.download import source_of, trace_for
from ui.export.programs import header
from ui.frame.availability import why_not
from ui.tokens.downloads import make_pieces
from ui.tokens.settings import SIDE, SIDES, TOKEN
from ui.tokens.views import pieces_shown, read_side, tokenizer_of
from ui.tokens.words import count
from ui.work.cache import get_tracer
from ui.work.computed import computed

#: Id of the piece that is marked in B, whose vocabulary may be another one.
OTHER_TOKEN: Param[int | None] = Param(
    "other_token",
    url_state.whole(0, 9_999_999),
    None,
    lambda value: "" if value is None else str(value),
)

PARAMS = (SIDE, TOKEN, OTHER_TOKEN)

_TEXTS = {"source": "Source sentence", "translation": "Translation"}

#: Words that are cut differently are named up to here.
_MOST_WORDS = 6


@dataclass(frozen=True)
class Cut:
    """A text in pieces.

    Attributes:
        pieces, ids: special tokens included.  special, unknown: positions.
        stem: what the trace calls them: "src", "tgt" or "predicted".
    """

    pieces: tuple[str, ...]
    ids: tuple[int, ...]
    special: tuple[int, ...]
    unknown: tuple[int, ...]
    stem: str

    @property
    def words(self) -> dict[str, tuple[str, ...]]:
        """Each word with its pieces; of a word that stands there twice, the first."""
        kept = [at for at in range(len(self.pieces)) if at not in self.special]
        pieces = [self.pieces[at] for at in kept]
        groups = word_groups(pieces)
        found: dict[str, tuple[str, ...]] = {}
        for label, group in zip(group_labels(pieces, groups), groups, strict=True):
            found.setdefault(label, tuple(pieces[at] for at in group))
        return found


def cut_of(trace: Trace, side: str) -> Cut:
    """The source or the translation of a trace in pieces.

    A model without an encoder has one text, which is its source here.
    """
    if side == "source" and trace.src_tokens:
        return Cut(trace.src_tokens, trace.src_ids, trace.src_special, trace.src_unknown, "src")
    if side == "source":
        return Cut(trace.tgt_tokens, trace.tgt_ids, trace.tgt_special, (), "tgt")
    if not trace.src_tokens:
        return Cut((), (), (), (), "predicted")
    n = len(trace.predicted_tokens)
    ends = (n - 1,) if n and trace.complete else ()
    return Cut(trace.predicted_tokens, trace.predicted_ids, ends, (), "predicted")


def draw_tokens(setup: Setup, left: Trace, right: Trace, bar: Bar) -> None:
    """The pieces of both sides, then their numbers, then the words that are cut differently."""
    bar.controls.segmented_control(
        "Text", SIDES, label_visibility="collapsed", required=True,
        format_func=_TEXTS.__getitem__, **bound(SIDE),
    )  # fmt: skip
    text = url_state.get(SIDE)
    cuts = [cut_of(trace, text) for trace in (left, right)]
    for side, column in enumerate(rows()):
        with column.container():
            _draw_pieces(setup, side, cuts[side], text)
    if all(cut.pieces for cut in cuts):
        _draw_numbers(setup, cuts, text)
        st.markdown(apart(cuts[0], cuts[1]))
    with bar.aside:
        sides = [side for side in (0, 1) if cuts[side].pieces]
        offer_both(setup, "Tokens", sides, _Make(text))


def _draw_pieces(setup: Setup, side: int, cut: Cut, text: str) -> None:
    view, letter = view_of(setup, side), LETTERS[side]
    spec = page_of("tokens")
    if not cut.pieces:
        what = "source" if text == "source" else "translation"
        st.info(f"**{letter}** · This model has no {what}.", icon=spec.icon)
        return
    n, words = len(cut.pieces) - len(cut.special), len(cut.words)
    st.markdown(f"**{letter}** · {count(n, 'piece')} for {count(words, 'word')}")
    missing = why_not(view, spec)
    shown, changed = _shown(view, cut, text, known=missing is None)
    param = (TOKEN, OTHER_TOKEN)[side]

    def choose(index: int) -> None:
        url_state.put(param, index)

    chosen = url_state.get(param)
    sentence_pieces(
        shown, changed, chosen=-2 if chosen is None else chosen, on_choose=choose,
        key=f"compare_pieces_{side}", label=f"{letter}: the {text} in {count(n, 'piece')}",
    )  # fmt: skip
    if missing is not None:
        st.caption(plain(missing))
        return
    link_page(
        setup, side, "tokens",
        **{SIDE.name: text, TOKEN.name: "" if chosen is None else str(chosen)},
    )  # fmt: skip


def _shown(
    view: View, cut: Cut, text: str, *, known: bool
) -> tuple[list[Piece], Sequence[tuple[str, str]]]:
    """The pieces as the Tokens page shows them; of a foreign model as far as its trace says."""
    if not known:
        return pieces_of(cut), ()
    side: Side = "source" if text == "source" else "translation"
    typed = view.sentence
    reading = computed(
        view, "reading", side, lambda model, trace: read_side(model, trace, side, typed)
    )
    model = get_tracer(view)
    assert isinstance(model, Translator)
    return pieces_shown(reading, tokenizer_of(model, side)), reading.changed


def pieces_of(cut: Cut) -> list[Piece]:
    """Pieces without a vocabulary to look them up in."""
    words = [0] * len(cut.pieces)
    for number, group in enumerate(word_groups(cut.pieces, cut.special)):
        for at in group:
            words[at] = number
    shown = []
    for at, (piece, index) in enumerate(zip(cut.pieces, cut.ids, strict=True)):
        special, unknown = at in cut.special, at in cut.unknown
        note = f"token {at + 1}" + (f", id {index}" if index >= 0 else "")
        if unknown:
            note += "; not in the vocabulary"
        mark = "special" if special else "unknown" if unknown else ""
        shown.append(Piece(piece, index, words[at], mark, "", note))  # type: ignore[arg-type]
    return shown


def _draw_numbers(setup: Setup, cuts: Sequence[Cut], text: str) -> None:
    """What can be counted, a row each."""
    names = [
        "pieces",
        "words",
        "pieces a word",
        "not in the vocabulary",
        "pieces in the vocabulary",
    ]
    columns = []
    for side, cut in enumerate(cuts):
        n, words = len(cut.pieces) - len(cut.special), len(cut.words)
        model = get_tracer(view_of(setup, side))
        size = "unknown"
        if isinstance(model, Translator):
            tokenizer = tokenizer_of(model, "source" if text == "source" else "translation")
            size = f"{tokenizer.vocab_size:,}"
        columns.append(
            [str(n), str(words), f"{n / max(1, words):.2f}", str(len(cut.unknown)), size]
        )
    st.table(
        {"what": names, "A": columns[0], "B": columns[1]}, border="horizontal", hide_index=True
    )


def apart(left: Cut, right: Cut) -> str:
    """Which words that both have are cut differently, as one sentence of Markdown."""
    one, other = left.words, right.words
    shared = [word for word in one if word in other]
    differing = [word for word in shared if one[word] != other[word]]
    if not shared:
        return "The two have no word in common."
    if not differing:
        same = "Both cut" if len(shared) == 1 else f"Both cut all {len(shared)}"
        return f"{same} words that they share alike."
    named = "; ".join(
        f"{code(word, 24)} is {_cut(one[word])} in A and {_cut(other[word])} in B"
        for word in differing[:_MOST_WORDS]
    )
    more = f"; and {len(differing) - _MOST_WORDS} more" if len(differing) > _MOST_WORDS else ""
    words = "word is" if len(differing) == 1 else "words are"
    return f"**{len(differing)} of {len(shared)} shared {words} cut differently:** {named}{more}."


def _cut(pieces: Sequence[str]) -> str:
    return code("·".join(piece.replace("\u2581", "") or "\u2581" for piece in pieces), 40)


@dataclass(frozen=True)
class _Make:
    """The figure of one side, made without a session."""

    text: str

    def __call__(self, view: View, side: int) -> Exhibit:
        if view.kind == "checkpoint":
            return make_pieces(view, "source" if self.text == "source" else "translation", -2)
        cut = cut_of(trace_for(view), self.text)
        ids = np.array(cut.ids, dtype=np.int64)
        labels = tuple(f"{at} {piece}" for at, piece in enumerate(cut.pieces, start=1))
        return Exhibit(
            name=f"{self.text}-pieces",
            title=f"The {self.text} in pieces",
            caption="Every piece with its number.",
            parts=(Series("pieces", labels, {"id": ids}, "piece", "id", "bar"),),
            arrays={"pieces": np.array(cut.pieces), "ids": ids},
            snippet=header(source_of(view))
            + f"pieces = np.array(trace.{cut.stem}_tokens)\n"
            + f"ids = np.array(trace.{cut.stem}_ids)\n",
        )
