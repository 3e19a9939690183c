"""Differences between both sides' segmentations and position vectors."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import streamlit as st

from figures.exhibit import Exhibit, Panel
from figures.labels import code, plain
from transformer.measures.words import group_labels, word_groups
from transformer.text.marks import unmarked
from transformer.trace.position_vectors import trained_positions
from transformer.types import Floats
from ui.compare.exhibits import difference_exhibit
from ui.core import url_state
from ui.core.glossary import term
from ui.core.view import Side, other
from ui.core.widgets import bound, choose_one
from ui.export.download import figure_for
from ui.frame.beside import Beside, Download, Maker, Pair, both_of
from ui.positions.exhibits import STACKS, OwnPositions, added_positions, own_positions
from ui.positions.views import PositionsChoice, draw_positions
from ui.tokens import panels
from ui.tokens.choice import TokensChoice, side_now
from ui.tokens.panels import reading_of_side
from ui.tokens.views import Reading
from ui.work.desk import get_translator

#: Maximum number of differently split words named.
_MOST_WORDS = 6


def _compare_pieces(pair: Pair) -> Download | None:
    download = both_of(pair, _pieces_figure, "Tokens")
    if len(pair.shown) < 2:
        return download
    table: dict[str, Sequence[str]] = {
        "what": (
            "pieces", "words", "pieces per word", "not in the vocabulary", "vocabulary size",
        )
    }  # fmt: skip
    readings = []
    for side in pair.shown:
        reading, tokenizer = reading_of_side(side)
        n, words = reading.n_pieces, reading.n_words
        size = "unknown" if tokenizer is None else f"{tokenizer.vocab_size:,}"
        ratio = f"{n / max(1, words):.2f}"
        table[side.letter] = [str(n), str(words), ratio, str(len(reading.unknown)), size]
        readings.append(reading)
    st.table(table, border="horizontal", hide_index=True)
    st.markdown(apart(*readings))
    return download


def apart(left: Reading, right: Reading) -> str:
    """Return a Markdown sentence about shared words that are split differently."""
    one, two = _words(left), _words(right)
    shared = [word for word in one if word in two]
    differing = [word for word in shared if one[word] != two[word]]
    if not shared:
        return "The texts have no word in common."
    if not differing:
        if len(shared) == 1:
            return "The one shared word is split in the same way."
        return f"All {len(shared)} shared words are split in the same way."
    named = "; ".join(
        f"{code(word, 24)} is {_cut(one[word])} in A and {_cut(two[word])} in B"
        for word in differing[:_MOST_WORDS]
    )
    more = f"; and {len(differing) - _MOST_WORDS} more" if len(differing) > _MOST_WORDS else ""
    words = "word is" if len(differing) == 1 else "words are"
    return f"**{len(differing)} of {len(shared)} shared {words} split differently:** {named}{more}."


def _words(reading: Reading) -> dict[str, tuple[str, ...]]:
    """Return pieces by word, at the word's first occurrence."""
    pieces = [piece for at, piece in enumerate(reading.pieces) if at not in reading.special]
    groups = word_groups(pieces)
    words: dict[str, tuple[str, ...]] = {}
    for label, group in zip(group_labels(unmarked(pieces), groups), groups, strict=True):
        words.setdefault(label, tuple(pieces[at] for at in group))
    return words


def _cut(pieces: Sequence[str]) -> str:
    return code("·".join(piece.replace("\u2581", "") or "\u2581" for piece in pieces), 40)


def _pieces_figure(side: Side) -> Maker:
    return partial(panels.pieces_figure, side.view, side_now())


def _draw_controls(pair: Pair) -> None:
    pair.controls.slider(
        "Positions", 8, 512, help=term("positional encoding"), width=220,
        **bound(PositionsChoice.length),
    )  # fmt: skip
    choose_one("Stack", PositionsChoice.side, list(STACKS), pair.controls)


def _own(side: Side) -> OwnPositions:
    stack = STACKS[url_state.get(PositionsChoice.side)]
    return own_positions(get_translator(side.view), stack, url_state.get(PositionsChoice.length))


def _draw_table(side: Side) -> None:
    own = _own(side)
    st.markdown(f"{side.lead}{plain(own.about)}")
    count, width = own.table.shape
    draw_positions(
        st.container(), own.table, side.key("positions"),
        f"{side.letter}: vectors of {count} positions in {width} dimensions.",
        height=330, trained=trained_positions(side.view.entry.metrics),
    )  # fmt: skip


def _positions_figure(side: Side) -> Maker:
    chosen = PositionsChoice.read()
    return partial(figure_for, side.view, added_positions, stack=chosen.side, n=chosen.length)


def _compare_positions(pair: Pair) -> Download | None:
    """Draw the difference between tables of equal size, or the reason why there is none."""
    tables = [_own(side).table for side in pair.shown]
    title = f"{url_state.get(PositionsChoice.side)} positions"
    download = both_of(pair, _positions_figure, title, 2 * sum(table.size for table in tables))
    if download is None or len(tables) < 2:
        return download
    one, two = tables
    why = why_not_subtracted(one, two)
    download = replace(download, make=partial(_figure, download.make, apart=not why))
    if why:
        st.info(why, icon=":material/join_inner:")
        return download
    apart = one - two
    most = float(np.abs(apart).max())
    if most == 0:
        st.markdown("**A − B:** all position vectors are equal.")
    else:
        st.markdown(f"**A − B:** position vectors differ by up to {most:.3g}.")
        draw_positions(
            st.container(), apart, "positions_difference",
            f"A's position vectors minus B's, up to {most:.3g}.", height=330, limit=most,
        )  # fmt: skip
    return download


def why_not_subtracted(left: Floats, right: Floats) -> str:
    """Return the reason why two tables [n, d] cannot be subtracted, or ""."""
    if left.shape[1] != right.shape[1]:
        return f"Vectors of {left.shape[1]} and {right.shape[1]} dimensions cannot be subtracted."
    if len(left) != len(right):
        shorter = "A" if len(left) < len(right) else "B"
        ends = min(len(left), len(right))
        return (
            f"{shorter} has only {ends} positions. Choose {ends} or fewer to subtract the tables."
        )
    return ""


def _figure(make: Maker, *, apart: bool) -> Exhibit:
    both = replace(make(), columns=2)
    if not apart:
        return both
    first = both.parts[0]
    assert isinstance(first, Panel)
    values = both.arrays["positions_a"] - both.arrays["positions_b"]
    panel = replace(first, title="A − B", values=values, quantity="difference")
    return difference_exhibit(both, panel, "positions")


def _lacks(side: Side) -> str | None:
    if side.view.kind == "checkpoint":
        return None
    return f"Position vectors require a Headlight model; {side.view.title} is not one."


PIECES = Beside(
    (panels.draw_pieces,), _pieces_figure, above=lambda pair: panels.draw_texts(pair.controls),
    below=_compare_pieces, settings=panels.pieces_settings, lacks=panels.lacks_text,
    everywhere=True, params=(TokensChoice.side, TokensChoice.token, other(TokensChoice.token)),
)  # fmt: skip
POSITIONS = Beside(
    (_draw_table,), _positions_figure, above=_draw_controls, below=_compare_positions,
    lacks=_lacks, params=(PositionsChoice.length, PositionsChoice.side),
)  # fmt: skip
