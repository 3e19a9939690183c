"""The search trees of both sides, why each winner won, and one node of each."""

from __future__ import annotations

from functools import partial
from typing import Any

import streamlit as st

from figures.exhibit import Exhibit
from figures.markdown import code
from figures.outcomes import Decode, summary, text_of, why_it_went, why_the_winner_won
from transformer.measures.beam import Node, Tree, beam_tree
from transformer.trace.records import Trace
from ui.beam.exhibits import tree_exhibit
from ui.beam.panels import numbers_of
from ui.beam.settings import (
    DROPPED,
    Mark,
    Start,
    chosen,
    mark_of,
    parse_mark,
    put,
    telling_node,
    write_mark,
)
from ui.compare.choice import Setup
from ui.compare.sides import LETTERS, Bar, link_page, offer_both, sides_of, view_of
from ui.components.tree import TreeChoice, choice_in, encode
from ui.components.tree.mount import beam_tree_view
from ui.core import url_state
from ui.core.url_state import Param
from ui.core.view import View
from ui.export.download import source_of, trace_for
from ui.translate.words import how_decoded, scored
from ui.work.cache import get_translator, trace_id
from ui.work.computed import computed

#: The node of each side's tree whose numbers stand below it.
NODES: tuple[Param[Mark | None], ...] = tuple(
    Param(f"node_{side}", parse_mark, None, write_mark) for side in "ab"
)

PARAMS: tuple[Param[Any], ...] = (*NODES, DROPPED)


def draw_beams(setup: Setup, left: Trace, right: Trace, bar: Bar) -> None:
    """Both trees, row by row."""
    traces = left, right
    sides = sides_of(setup, "beam", [_why_none(setup, side, traces[side]) for side in (0, 1)])
    trees = {side: _tree_of(view_of(setup, side)) for side in sides.shown}
    decodes: dict[int, Decode] = {
        side: get_translator(view_of(setup, side)).tokenizer.target.decode for side in sides.shown
    }
    sides.in_row(lambda side: _say_how(setup, side, traces[side]), first=True)
    sides.in_row(lambda side: _draw_tree(setup, side, trees[side], decodes[side], bar.anew))
    sides.in_row(lambda side: _draw_why(side, trees[side], decodes[side]))
    sides.in_row(lambda side: _draw_node(setup, side, trees[side], decodes[side]))
    with bar.aside:
        choices = {side: _choice(trees[side], side) for side in sides.shown}
        offer_both(setup, "Beam search", sides.shown, partial(_exhibit, choices))


def _why_none(setup: Setup, side: int, trace: Trace) -> str | None:
    """Why a model that can search shows no tree of this sentence."""
    if trace.search is not None:
        return None
    if not trace.forced:
        return (
            "The record of this search was too large to keep. Take a smaller beam under Decoding "
            "on the left, or a shorter sentence."
        )
    if side == 1 and setup.follow:
        return (
            "B follows A’s translation, so nothing was searched for. Switch that off, and B "
            "searches for a translation of its own."
        )
    return "This translation was given as a whole, so nothing was searched for."


def _tree_of(view: View) -> Tree:
    tree: Tree = computed(view, "beam-tree", (), lambda _, trace: beam_tree(trace))
    return tree


def _say_how(setup: Setup, side: int, trace: Trace) -> None:
    st.caption(f"**{LETTERS[side]}** · {how_decoded(view_of(setup, side), trace)}, {scored(trace)}")


def _draw_why(side: int, tree: Tree, decode: Decode) -> None:
    st.markdown(f"**{LETTERS[side]}** · {why_the_winner_won(tree, decode)}")


def _draw_tree(setup: Setup, side: int, tree: Tree, decode: Decode, anew: bool) -> None:
    view, key = view_of(setup, side), f"compare_tree_{side}"
    name = trace_id(view)
    held: Start | None = st.session_state.get(f"{key}_start")
    fresh = held is None or held.tree_id != name
    if fresh and chosen(tree, NODES[side]) is None:
        first = telling_node(tree)
        url_state.put(NODES[side], None if first is None else mark_of(first))
    wanted = _choice(tree, side)
    if held is None or fresh or anew or held.choice.dropped != wanted.dropped:
        held = Start(name, wanted, held.nonce + 1 if held else 0)
        st.session_state[f"{key}_start"] = held

    def follow() -> None:
        reported = choice_in(st.session_state.get(key), name, tree)
        if reported is None:
            return
        if reported.dropped != _choice(tree, side).dropped:
            url_state.put(DROPPED, url_state.write_switch(reported.dropped))
            # This tree shows it already; the other one is told.
            st.session_state[f"{key}_start"] = Start(name, reported, held.nonce)
        put(tree, NODES[side], reported.a)

    beam_tree_view(
        encode(tree, name, held.choice, summary(tree, decode), held.nonce, single=True),
        key=key, on_view_change=follow,
    )  # fmt: skip


def _choice(tree: Tree, side: int) -> TreeChoice:
    """What the settings say, for this tree; what was dropped is shown in both or in none."""
    node, asked = chosen(tree, NODES[side]), url_state.get(DROPPED)
    return TreeChoice(
        None if node is None else node.index,
        None,
        tree.beam_size == 1 if asked == "auto" else asked == "on",
    )


def _draw_node(setup: Setup, side: int, tree: Tree, decode: Decode) -> None:
    node = chosen(tree, NODES[side])
    if node is None:
        st.caption("Click a node in the tree to see its numbers.")
    else:
        so_far = text_of(tree, node.parent, decode) if node.parent >= 0 else ""
        after = code(so_far, 40) if so_far else "nothing yet"
        st.markdown(
            f"**{LETTERS[side]} · step {node.step + 1}: {code(node.token, 30)}** after {after}"
        )
        st.markdown(why_it_went(tree, node))
        st.table(numbers_of(tree, node), border="horizontal", hide_header=True, hide_index=True)
    link_page(setup, side, "beam", **_marks(side, node))


def _marks(side: int, node: Node | None) -> dict[str, str]:
    """The node as the whole page's link names it."""
    return {} if node is None else {"a": write_mark(mark_of(node))}


def _exhibit(choices: dict[int, TreeChoice], view: View, side: int) -> Exhibit:
    return tree_exhibit(trace_for(view), choices[side], source_of(view))
