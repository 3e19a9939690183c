"""Choices on the Beam search page: nodes A and B, dropped nodes, panel."""

from dataclasses import dataclass

from figures.outcomes import closest_call
from transformer.measures.beam import Node, Tree
from ui.beam.exhibits import LOOKS
from ui.components.tree import TreeChoice
from ui.core import url_state
from ui.core.url_state import Param
from ui.core.view import View
from ui.core.widgets import UNITS, PlaceChoice

#: A node in a link: step and rank, 1-based, as in "5.2".
Mark = tuple[int, int]

PANELS = {"node": "Node A", "compare": "A and B compared", "finished": "Finished hypotheses"}


def mark(name: str) -> Param[Mark | None]:
    """Return a setting for a node, or None, which a link writes as "none"."""
    return Param(
        name, lambda raw: None if raw == "none" else url_state.parse_pair(raw), None,
        lambda value: "none" if value is None else url_state.write_pair(value), of="request",
    )  # fmt: skip


@dataclass(frozen=True)
class BeamChoice(PlaceChoice):
    """URL parameters; "auto" shows dropped nodes for a beam of 1 only."""

    a: Param[Mark | None] = mark("a")
    b: Param[Mark | None] = mark("b")
    dropped: Param[str] = Param("dropped", url_state.one_of(("auto", "on", "off")), "auto")
    panel: Param[str] = Param("panel", url_state.one_of(PANELS), "node")
    look: Param[str] = Param("look", url_state.one_of(LOOKS), "cross")
    units: Param[str] = UNITS


class Slot:
    """A tree on screen: its component's key and its nodes' settings, `b` None for a single node."""

    def __init__(
        self, key: str, a: Param[Mark | None], b: Param[Mark | None] | None = None
    ) -> None:
        self.key, self.a, self.b = key, a, b


#: The page's own tree.
PAGE = Slot("beam_tree", BeamChoice.a, BeamChoice.b)


def prepare_tree(view: View, tree: Tree) -> None:
    """Keep valid nodes of a link or an earlier visit, or choose the default; for full page runs."""
    ensure_node(tree, BeamChoice.a)
    second = chosen(tree, BeamChoice.b)
    written = (BeamChoice.dropped, BeamChoice.panel, BeamChoice.look)
    kept = {param: url_state.get(param) for param in written}
    url_state.store({BeamChoice.b: second and mark_of(second), **kept})


def ensure_node(tree: Tree, param: Param[Mark | None]) -> None:
    """Set a parameter to the default node unless the tree has the stored node."""
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
    """Return the node in a URL parameter, or None if this tree does not have it."""
    mark = url_state.get(param)
    return None if mark is None else tree.find(mark[0] - 1, mark[1] - 1)


def mark_of(node: Node) -> Mark:
    """Return a node's step and rank for a link."""
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
    """Return the winner's first node that is not on the runner-up's path.

    A beam of 1 returns the closest call; without a runner-up, it is the winner's first node.
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
    """If B is missing, compare the best branches with and without A."""
    a, b = chosen(tree, BeamChoice.a), chosen(tree, BeamChoice.b)
    if a is None or b is not None or not tree.leaves:
        return
    leaf = tree.best_leaf(a.index)
    rivals = [other for other in tree.leaves if a.index not in tree.path(other)]
    rivals = rivals or [other for other in tree.leaves if other != leaf]
    if rivals:
        if leaf is not None:
            put(tree, BeamChoice.a, leaf)
        put(tree, BeamChoice.b, rivals[0])
