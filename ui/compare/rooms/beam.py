"""The search trees of both sides, why each winner won, and one node of each."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import streamlit as st

from figures.exhibit import Exhibit
from ui.beam.choice import BeamChoice, Slot, choice, chosen, follow_beside, mark, mark_of, open_tree
from ui.beam.exhibits import tree_exhibit
from ui.beam.panels import draw_node, draw_tree, draw_why, search_of
from ui.compare.choice import Setup
from ui.compare.programs import LETTERS
from ui.compare.sides import CompareRoom, Download, Pair
from ui.components.tree import TreeChoice
from ui.core import url_state
from ui.core.side import Side
from ui.core.view import View
from ui.export.download import source_of, trace_for
from ui.translate.words import decoded_text


def _slot(letter: str) -> Slot:
    return Slot(f"beam_tree_{letter}", mark(f"node_{letter.lower()}"), None)


#: The tree of each side; its one node is that whose numbers stand below it.
_SLOTS = {letter: _slot(letter) for letter in LETTERS}


def _draw(pair: Pair) -> Download | None:
    """Both trees, row by row."""
    searches = {side.letter: search_of(side.view, side.trace) for side in pair.shown}

    def say_how(side: Side) -> None:
        st.caption(f"{side.lead}{decoded_text(side.view, side.trace)}")

    def tree(side: Side) -> None:
        search, slot = searches[side.letter], _SLOTS[side.letter]
        start = open_tree(side.view, search.tree, slot, anew=pair.anew)
        draw_tree(search, start, partial(follow_beside, slot=slot), slot)

    def why(side: Side) -> None:
        search = searches[side.letter]
        draw_why(search, side.lead)

    def node(side: Side) -> None:
        search = searches[side.letter]
        at = chosen(search.tree, _SLOTS[side.letter].a)
        if at is None:
            st.caption("Choose a node in the tree to see its numbers and its attention.")
        else:
            draw_node(search, at, side.letter)

    def settings(side: Side) -> Mapping[str, str]:
        at = chosen(searches[side.letter].tree, _SLOTS[side.letter].a)
        return {} if at is None else {"a": url_state.write_pair(mark_of(at))}

    pair.rows(say_how, tree, why, node)
    pair.links(settings)
    shown = {
        letter: choice(search.tree, _SLOTS[letter]) for letter, search in searches.items()
    }  # fmt: skip
    return pair.download(lambda side: partial(_exhibit, side.view, shown[side.letter]))


def _exhibit(view: View, shown: TreeChoice) -> Exhibit:
    return tree_exhibit(trace_for(view), shown, source_of(view))


def _lacks(setup: Setup, side: Side) -> str | None:
    """Why a model that can search shows no tree of this sentence."""
    if side.trace.search is not None:
        return None
    if not side.trace.forced:
        return (
            "This search was not recorded: the record would be too large. Choose a smaller beam "
            "under Decoding on the left, or a shorter sentence."
        )
    if side.letter == "B" and setup.follow:
        return (
            "No search to show: B follows A’s translation. Switch that off, and B will search for "
            "its own translation."
        )
    return "No search to show: the whole translation was given (teacher forcing)."


ROOM = CompareRoom(
    "beam", _draw, page="beam", lacks=_lacks,
    params=(*(slot.a for slot in _SLOTS.values()), BeamChoice.dropped),
)  # fmt: skip
