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

#: A node in a link: its step and its rank, both from 1, as in "5.2".
Mark = tuple[int, int]

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
class Slot:
    """Where one tree on screen keeps what is chosen in it.

    Attributes:
        key: of its component.
        a, b: the settings that hold its nodes; where `b` is None, one node is chosen only.
    """

    key: str = "beam_tree"
    a: Param[Mark | None] = A
    b: Param[Mark | None] | None = B

    @property
    def start(self) -> Start | None:
        """What the tree was last told to show."""
        held: Start | None = st.session_state.get(f"{self.key}_start")
        return held

    def restart(self, start: Start) -> Start:
        """Have the tree show this."""
        st.session_state[f"{self.key}_start"] = start
        return start


#: That of the page.
PAGE = Slot()


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
    name = view.request.name
    held = PAGE.start
    asked = url_state.arrived(A, B, DROPPED)
    if held is not None and held.tree_id == name and not asked and not url_state.entered():
        return
    if held is not None and held.tree_id != name and not asked:
        url_state.forget(A, B)
    settle_node(tree, A)
    if chosen(tree, B) is None:
        url_state.put(B, None)
    for param in (DROPPED, PANEL, LOOK):
        url_state.put(param, url_state.get(param))
    tell(view, tree)


def start_of(view: View, tree: Tree) -> Start:
    """What the tree opens with, as `settle` decided. A comparison without B gets one."""
    if url_state.get(PANEL) == "compare" and pair_up(tree):
        return tell(view, tree)
    held = PAGE.start
    return held if held is not None and held.tree_id == view.request.name else tell(view, tree)


def open_tree(view: View, tree: Tree, slot: Slot, *, anew: bool) -> Start:
    """What a tree beside another one opens with.

    That stands until the search changes, it is opened anew, or the other one hides or shows what
    was dropped.
    """
    held = slot.start
    fresh = held is None or held.tree_id != view.request.name
    if fresh:
        settle_node(tree, slot.a)
    if held is None or fresh or anew or held.choice.dropped != choice(tree, slot).dropped:
        return tell(view, tree, slot)
    return held


def settle_node(tree: Tree, param: Param[Mark | None]) -> None:
    """See that a setting names a node of this tree."""
    if chosen(tree, param) is None:
        first = telling_node(tree)
        url_state.put(param, None if first is None else mark_of(first))


def tell(view: View, tree: Tree, slot: Slot = PAGE) -> Start:
    """Have the tree show what the settings say now."""
    held = slot.start
    return slot.restart(Start(view.request.name, choice(tree, slot), held.nonce + 1 if held else 0))


def choice(tree: Tree, slot: Slot = PAGE) -> TreeChoice:
    """What the settings say, for this tree."""
    a, b = chosen(tree, slot.a), chosen(tree, slot.b) if slot.b else None
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


def keep(view: View, tree: Tree, slot: Slot) -> TreeChoice | None:
    """Store what a tree reports. Returns: the same; None where it is nothing usable."""
    reported = choice_in(st.session_state.get(slot.key), view.request.name, tree)
    if reported is not None:
        if reported.dropped != choice(tree, slot).dropped:
            url_state.put(DROPPED, url_state.write_switch(reported.dropped))
        put(tree, slot.a, reported.a)
        if slot.b is not None:
            put(tree, slot.b, reported.b)
    return reported


def follow(view: View, tree: Tree) -> None:
    """Take over what the page's tree reports. Choosing a new B opens the comparison."""
    before = choice(tree)
    reported = keep(view, tree, PAGE)
    if reported is None:
        return
    if reported.b is not None and reported.b != before.b:
        url_state.put(PANEL, "compare")
    elif reported.b is None and before.b is not None and url_state.get(PANEL) == "compare":
        url_state.put(PANEL, "node")


def follow_beside(view: View, tree: Tree, slot: Slot) -> None:
    """Take over what a tree beside another one reports. It shows that already; the other one is
    told what was dropped.
    """
    before, held = choice(tree, slot), slot.start
    reported = keep(view, tree, slot)
    if reported is not None and held is not None and reported.dropped != before.dropped:
        slot.restart(Start(held.tree_id, reported, held.nonce))


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
