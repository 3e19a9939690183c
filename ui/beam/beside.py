"""Search trees of both sides of Compare, why their winners won, and one node of either."""

from dataclasses import asdict
from functools import partial

import streamlit as st

from figures.attention import LETTERS
from ui.beam.choice import BeamChoice, Slot, choice, chosen, ensure_node, keep, mark, mark_of
from ui.beam.exhibits import search_tree
from ui.beam.panels import Search, draw_node, draw_tree, draw_why, search_of
from ui.core.view import Side
from ui.export.download import figure_for
from ui.frame.beside import Beside, Changes, Maker
from ui.frame.steering import decoded_text

#: Node settings by side; the numbers of these nodes are below the trees.
_NODES = {letter: mark(f"node_{letter.lower()}") for letter in LETTERS}
_SLOTS = {letter: Slot(f"beam_tree_{letter}", node) for letter, node in _NODES.items()}


def _search(side: Side) -> Search:
    return search_of(side.view, side.trace)


def _draw_tree(side: Side) -> None:
    search, slot = _search(side), _SLOTS[side.letter]
    ensure_node(search.tree, slot.a)
    draw_tree(search, partial(keep, slot=slot), slot)


def _draw_node(side: Side) -> None:
    search = _search(side)
    at = chosen(search.tree, _NODES[side.letter])
    if at is None:
        st.caption("Choose a node in the tree to see its numbers and its attention.")
    else:
        draw_node(search, at, side.letter)


def _settings(side: Side) -> Changes:
    at = chosen(_search(side).tree, _NODES[side.letter])
    return {} if at is None else {BeamChoice.a: mark_of(at)}


def _figure(side: Side) -> Maker:
    shown = choice(_search(side).tree, _SLOTS[side.letter])
    return partial(figure_for, side.view, search_tree, **asdict(shown))


def why_no_tree(side: Side) -> str | None:
    """Return why there is no tree for this sentence and how to get one, or None."""
    view, trace = side.view, side.trace
    if trace.search is not None:
        return None
    if not trace.forced:
        return (
            f"This search was not recorded: with a beam of {view.beam_size} over "
            f"{len(trace.src_tokens)} source and {len(trace.tgt_tokens)} target tokens, the "
            "record would be too large. Choose a smaller beam under Decoding on the left, or a "
            "shorter sentence."
        )
    if side.follows:
        return (
            "No search to show: B follows A’s translation. Switch this off to let B search for "
            "its own translation."
        )
    return (
        "No search to show: the whole translation was given (teacher forcing), so the model "
        "compared nothing. Remove the given target on the Translate page, and the model will "
        "search for its own translation."
    )


BESIDE = Beside(
    (
        lambda side: st.caption(f"{side.lead}{decoded_text(side.view, side.trace)}"), _draw_tree,
        lambda side: draw_why(_search(side), side.lead), _draw_node,
    ),
    _figure, settings=_settings, lacks=why_no_tree, params=(*_NODES.values(), BeamChoice.dropped),
)  # fmt: skip
