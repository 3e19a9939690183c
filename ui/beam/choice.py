"""The Beam search page's choices: nodes A and B, whether dropped nodes show, which panel."""

from __future__ import annotations

from dataclasses import dataclass

from figures.outcomes import closest_call
from transformer.measures.beam import Node, Tree
from ui.beam.exhibits import LOOKS
from ui.components.tree import TreeChoice
from ui.core import url_state
from ui.core.choice import Choice
from ui.core.url_state import HEAD, KIND, LAYER, Param
from ui.core.view import View
from ui.core.widgets import UNITS

#: A node in a link: its step and its rank, both from 1, as in "5.2".
Mark = tuple[int, int]

PANELS = {"node": "Node A", "compare": "A and B compared", "finished": "Finished hypotheses"}


def mark(name: str) -> Param[Mark | None]:
    """Return the setting of a node; "none" is no node."""
    return Param(
        name, lambda raw: None if raw == "none" else url_state.parse_pair(raw), None,
        lambda value: "none" if value is None else url_state.write_pair(value), of="request",
    )  # fmt: skip


@dataclass(frozen=True)
class BeamChoice(Choice):
    """The URL parameters; "auto" shows dropped nodes for a beam of 1 only."""

    a: Param[Mark | None] = mark("a")
    b: Param[Mark | None] = mark("b")
    dropped: Param[str] = Param("dropped", url_state.one_of(("auto", "on", "off")), "auto")
    panel: Param[str] = Param("panel", url_state.one_of(PANELS), "node")
    look: Param[str] = Param("look", url_state.one_of(LOOKS), "cross")
    kind: Param[str] = KIND
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
    """Keep the nodes of a link or an earlier visit that the tree has, or choose the default.

    Called in full runs of the page.
    """
    ensure_node(tree, BeamChoice.a)
    second = chosen(tree, BeamChoice.b)
    written = (BeamChoice.dropped, BeamChoice.panel, BeamChoice.look)
    kept = {param: url_state.get(param) for param in written}
    url_state.store({BeamChoice.b: second and mark_of(second), **kept})


def ensure_node(tree: Tree, param: Param[Mark | None]) -> None:
    """Set a parameter to the default node unless it names a node of this tree."""
    if chosen(tree, param) is None:
        first = default_node(tree)
        put(tree, param, None if first is None else first.index)


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


def keep(tree: Tree, reported: TreeChoice, slot: Slot = PAGE) -> None:
    """Store what a tree reports."""
    if reported.dropped != choice(tree, slot).dropped:
        url_state.put(BeamChoice.dropped, "on" if reported.dropped else "off")
    put(tree, slot.a, reported.a)
    if slot.b is not None:
        put(tree, slot.b, reported.b)


def follow(tree: Tree, reported: TreeChoice) -> None:
    """Store what the page's tree reports; choosing a new B opens the comparison."""
    before = choice(tree)
    keep(tree, reported)
    panel = url_state.get(BeamChoice.panel)
    if reported.b != before.b and (reported.b is not None or panel == "compare"):
        url_state.put(BeamChoice.panel, "node" if reported.b is None else "compare")


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


def pair_up(tree: Tree) -> None:
    """Choose the branches to compare if B is missing: the best through A, the best without it."""
    a, b = chosen(tree, BeamChoice.a), chosen(tree, BeamChoice.b)
    if a is None or b is not None or not tree.leaves:
        return
    leaf = tree.best_leaf(a.index)
    rivals = [each for each in tree.leaves if a.index not in tree.path(each)]
    if not rivals:
        rivals = [each for each in tree.leaves if each != leaf]
    if rivals:
        if leaf is not None:
            put(tree, BeamChoice.a, leaf)
        put(tree, BeamChoice.b, rivals[0])
