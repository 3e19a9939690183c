"""What is chosen on the page of the search tree: nodes A and B, what is shown, which panel."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from figures.outcomes import closest_call
from transformer.measures.beam import Node, Tree
from ui.components.tree import TreeChoice, choice_in
from ui.core import url_state
from ui.core.url_state import Param
from ui.core.view import View
from ui.work.cache import trace_id

#: A node in a link: its step and its rank, both from 1, as in "5.2".
Mark = tuple[int, int]

TREE_KEY = "beam_tree"
_START = "beam_start"

PANELS = {"node": "Node A", "compare": "A beside B", "finished": "What ended"}
LOOKS = {"cross": "Cross-attention", "decoder_self": "Decoder self-attention"}


def parse_mark(raw: str) -> Mark | None:
    """A node of a link; "none" is none."""
    if raw == "none":
        return None
    step, _, rank = raw.partition(".")
    number = url_state.whole(1, 99_999)
    return number(step), number(rank)


def write_mark(mark: Mark | None) -> str:
    """The raw string of a node."""
    return "none" if mark is None else f"{mark[0]}.{mark[1]}"


A: Param[Mark | None] = Param("a", parse_mark, None, write_mark)
B: Param[Mark | None] = Param("b", parse_mark, None, write_mark)
#: "auto" shows the runners-up of a beam of one and hides what a wider one dropped.
DROPPED: Param[str] = Param("dropped", url_state.one_of(("auto", "on", "off")), "auto")
PANEL: Param[str] = Param("panel", url_state.one_of(PANELS), "node")
LOOK: Param[str] = Param("look", url_state.one_of(LOOKS), "cross")


@dataclass(frozen=True)
class Start:
    """What the tree was last told to show: of which search, and how often before."""

    tree_id: str
    choice: TreeChoice
    nonce: int


def settle(view: View, tree: Tree) -> None:
    """Decide what the tree opens with: what a link or an earlier visit says, or a telling node.

    Called by a run of the whole page. The decision stands until the search changes, a link arrives,
    the page is opened again, or `tell` changes it: an unchanged message leaves a tree in use alone.
    """
    name = trace_id(view)
    held: Start | None = st.session_state.get(_START)
    asked = url_state.arrived(A, B, DROPPED)
    if held is not None and held.tree_id == name and not asked and not url_state.entered():
        return
    if held is not None and held.tree_id != name and not asked:
        url_state.forget(A, B)
    if chosen(tree, A) is None:
        first = telling_node(tree)
        url_state.put(A, None if first is None else mark_of(first))
    if chosen(tree, B) is None:
        url_state.put(B, None)
    for param in (DROPPED, PANEL, LOOK):
        url_state.put(param, url_state.get(param))
    tell(view, tree)


def start_of(view: View, tree: Tree) -> Start:
    """What the tree opens with, as `settle` decided. A comparison without B gets one."""
    if url_state.get(PANEL) == "compare" and pair_up(tree):
        return tell(view, tree)
    held: Start | None = st.session_state.get(_START)
    return held if held is not None and held.tree_id == trace_id(view) else tell(view, tree)


def tell(view: View, tree: Tree) -> Start:
    """Have the tree show what the settings say now."""
    held: Start | None = st.session_state.get(_START)
    start = Start(trace_id(view), choice(tree), held.nonce + 1 if held else 0)
    st.session_state[_START] = start
    return start


def choice(tree: Tree) -> TreeChoice:
    """What the settings say, for this tree."""
    a, b = chosen(tree, A), chosen(tree, B)
    asked = url_state.get(DROPPED)
    return TreeChoice(
        None if a is None else a.index,
        None if b is None else b.index,
        tree.beam_size == 1 if asked == "auto" else asked == "on",
    )


def chosen(tree: Tree, param: Param[Mark | None]) -> Node | None:
    """The node that a setting names, None where this tree has no such node."""
    mark = url_state.get(param)
    return None if mark is None else tree.find(mark[0] - 1, mark[1] - 1)


def mark_of(node: Node) -> Mark:
    """How a link names a node."""
    return node.step + 1, node.rank + 1


def put(tree: Tree, param: Param[Mark | None], index: int | None) -> None:
    """Store a node as A or B."""
    url_state.put(param, None if index is None else mark_of(tree.node(index)))


def follow(view: View, tree: Tree) -> None:
    """Take over what the tree reports. Choosing a new B opens the comparison."""
    reported = choice_in(st.session_state.get(TREE_KEY), trace_id(view), tree)
    if reported is None:
        return
    before = choice(tree)
    if reported.dropped != before.dropped:
        url_state.put(DROPPED, url_state.write_switch(reported.dropped))
    put(tree, A, reported.a)
    put(tree, B, reported.b)
    if reported.b is not None and reported.b != before.b:
        url_state.put(PANEL, "compare")
    elif reported.b is None and before.b is not None and url_state.get(PANEL) == "compare":
        url_state.put(PANEL, "node")


def telling_node(tree: Tree) -> Node | None:
    """Where the page opens: the winner's token where the runner-up left it.

    With a beam of one, the closest call; without a runner-up, the winner's first token.
    """
    if not tree.winner:
        return None
    if tree.beam_size == 1:
        close = closest_call(tree)
        return tree.node(tree.winner[0]) if close is None else close[0]
    if len(tree.leaves) > 1:
        rival = set(tree.path(tree.leaves[1]))
        for index in tree.winner:
            if index not in rival:
                return tree.node(index)
    return tree.node(tree.winner[0])


def pair_up(tree: Tree) -> bool:
    """See that there are two to compare: the best that came of A, and the best without A.

    Returns: whether anything was chosen.
    """
    a, b = chosen(tree, A), chosen(tree, B)
    if a is None or b is not None or not tree.leaves:
        return False
    leaf = tree.best_leaf(a.index)
    rivals = [each for each in tree.leaves if a.index not in tree.path(each)]
    if not rivals:
        rivals = [each for each in tree.leaves if each != leaf]
    if not rivals:
        return False
    if leaf is not None:
        put(tree, A, leaf)
    put(tree, B, rivals[0])
    return True
