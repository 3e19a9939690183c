"""The Beam search page's choices: nodes A and B, whether dropped nodes show, which panel."""

from __future__ import annotations

from dataclasses import dataclass, replace

import streamlit as st

from figures.outcomes import closest_call
from transformer.measures.beam import Node, Tree
from ui.beam.exhibits import LOOKS
from ui.components.tree import TreeChoice, choice_in
from ui.core import url_state
from ui.core.choice import Choice
from ui.core.side import Start, last_start, start_anew
from ui.core.url_state import HEAD, LAYER, Param
from ui.core.view import View
from ui.core.widgets import UNITS

#: A node in a link: its step and its rank, both from 1, as in "5.2".
Mark = tuple[int, int]

PANELS = {"node": "Node A", "compare": "A and B compared", "finished": "Finished hypotheses"}


def mark(name: str) -> Param[Mark | None]:
    """Return the setting of a node; "none" is no node."""
    return Param(
        name, lambda raw: None if raw == "none" else url_state.parse_pair(raw), None,
        lambda value: "none" if value is None else url_state.write_pair(value),
    )  # fmt: skip


@dataclass(frozen=True)
class BeamChoice(Choice):
    """The URL parameters; "auto" shows dropped nodes for a beam of 1 only."""

    a: Param[Mark | None] = mark("a")
    b: Param[Mark | None] = mark("b")
    dropped: Param[str] = Param("dropped", url_state.one_of(("auto", "on", "off")), "auto")
    panel: Param[str] = Param("panel", url_state.one_of(PANELS), "node")
    look: Param[str] = Param("look", url_state.one_of(LOOKS), "cross")
    layer: Param[int | None] = LAYER
    head: Param[int | None] = HEAD
    units: Param[str] = UNITS


class Slot:
    """A tree on screen: the key of its component and the settings of its nodes.

    If `b` is None, only one node can be chosen.
    """

    def __init__(
        self, key: str, a: Param[Mark | None], b: Param[Mark | None] | None = None
    ) -> None:
        self.key, self.a, self.b = key, a, b


#: The slot of the page's own tree.
PAGE = Slot("beam_tree", BeamChoice.a, BeamChoice.b)


def prepare_tree(view: View, tree: Tree) -> None:
    """Decide what the tree opens with: the nodes of a link or an earlier visit, or a default.

    Called in full runs of the page.
    """
    last = last_start(PAGE.key)
    fresh = last is None or last.trace != view.request.name
    from_link = url_state.arrived(BeamChoice.a, BeamChoice.b, BeamChoice.dropped)
    if not (fresh or from_link or url_state.entered()):
        return
    if fresh and last is not None and not from_link:
        url_state.forget(BeamChoice.a, BeamChoice.b)
    ensure_node(tree, BeamChoice.a)
    if chosen(tree, BeamChoice.b) is None:
        url_state.put(BeamChoice.b, None)
    for param in (BeamChoice.dropped, BeamChoice.panel, BeamChoice.look):
        url_state.put(param, url_state.get(param))
    update_tree(view, tree)


def start_of(view: View, tree: Tree) -> Start[TreeChoice]:
    """Return what the tree opens with; if the comparison panel lacks a node B, choose one."""
    paired = url_state.get(BeamChoice.panel) == "compare" and pair_up(tree)
    last = last_start(PAGE.key)
    if paired or last is None or last.trace != view.request.name:
        return update_tree(view, tree)
    return last


def open_tree(view: View, tree: Tree, slot: Slot, *, anew: bool) -> Start[TreeChoice]:
    """Return what one of two trees side by side opens with; "dropped" holds for both."""
    last = last_start(slot.key)
    fresh = last is None or last.trace != view.request.name
    if fresh:
        ensure_node(tree, slot.a)
    if last is None or fresh or anew or last.place.dropped != choice(tree, slot).dropped:
        return update_tree(view, tree, slot)
    return last


def ensure_node(tree: Tree, param: Param[Mark | None]) -> None:
    """Set a parameter to the default node unless it names a node of this tree."""
    if chosen(tree, param) is None:
        first = default_node(tree)
        url_state.put(param, None if first is None else mark_of(first))


def update_tree(view: View, tree: Tree, slot: Slot = PAGE) -> Start[TreeChoice]:
    """Have the tree show the stored choices."""
    return start_anew(slot.key, view.request.name, choice(tree, slot))


def choice(tree: Tree, slot: Slot = PAGE) -> TreeChoice:
    """Return the stored choices for this tree."""
    a, b = chosen(tree, slot.a), chosen(tree, slot.b) if slot.b else None
    dropped = url_state.get(BeamChoice.dropped)
    return TreeChoice(
        None if a is None else a.index,
        None if b is None else b.index,
        tree.beam_size == 1 if dropped == "auto" else dropped == "on",
    )


def chosen(tree: Tree, param: Param[Mark | None]) -> Node | None:
    """Return the node that a parameter names, None if this tree has no such node."""
    mark = url_state.get(param)
    return None if mark is None else tree.find(mark[0] - 1, mark[1] - 1)


def mark_of(node: Node) -> Mark:
    """Return a node's step and rank as a link has them."""
    return node.step + 1, node.rank + 1


def put(tree: Tree, param: Param[Mark | None], index: int | None) -> None:
    """Store a node as BeamChoice.a or BeamChoice.b."""
    url_state.put(param, None if index is None else mark_of(tree.node(index)))


def keep(view: View, tree: Tree, slot: Slot) -> TreeChoice | None:
    """Store what a tree reports, and return it; None if it is unusable."""
    reported = choice_in(st.session_state.get(slot.key), view.request.name, tree)
    if reported is not None:
        if reported.dropped != choice(tree, slot).dropped:
            url_state.put(BeamChoice.dropped, "on" if reported.dropped else "off")
        put(tree, slot.a, reported.a)
        if slot.b is not None:
            put(tree, slot.b, reported.b)
    return reported


def follow(view: View, tree: Tree) -> None:
    """Store what the page's tree reports; choosing a new B opens the comparison."""
    before = choice(tree)
    reported = keep(view, tree, PAGE)
    if reported is None:
        return
    if reported.b is None:
        if before.b is not None and url_state.get(BeamChoice.panel) == "compare":
            url_state.put(BeamChoice.panel, "node")
    elif reported.b != before.b:
        url_state.put(BeamChoice.panel, "compare")


def follow_beside(view: View, tree: Tree, slot: Slot) -> None:
    """Store what one of two trees side by side reports; that tree shows it already."""
    before, last = choice(tree, slot), last_start(slot.key)
    reported = keep(view, tree, slot)
    if reported is not None and last is not None and reported.dropped != before.dropped:
        st.session_state[f"{slot.key}_start"] = replace(last, place=reported)


def default_node(tree: Tree) -> Node | None:
    """Return the winner's first token that the runner-up does not share.

    With a beam of 1 it is the closest call; without a runner-up, the winner's first token.
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
    """Choose the branches to compare if B is missing; return True if they are chosen.

    They are the best through A and the best without it.
    """
    a, b = chosen(tree, BeamChoice.a), chosen(tree, BeamChoice.b)
    if a is None or b is not None or not tree.leaves:
        return False
    leaf = tree.best_leaf(a.index)
    rivals = [each for each in tree.leaves if a.index not in tree.path(each)]
    if not rivals:
        rivals = [each for each in tree.leaves if each != leaf]
    if not rivals:
        return False
    if leaf is not None:
        put(tree, BeamChoice.a, leaf)
    put(tree, BeamChoice.b, rivals[0])
    return True
