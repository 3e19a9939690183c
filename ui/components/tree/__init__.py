"""The tree of a beam search on a canvas: columns are steps, rows are ranks; click or use arrows.

`encode` turns a tree into one message; `mount.beam_tree_view` puts it on a page. Moving, zooming,
hiding what was dropped, and choosing nodes A and B happen in the browser; Python is told once the
user pauses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from figures.labels import show_token
from figures.outcomes import OUTCOMES
from figures.palette import THEMES, categorical
from transformer.measures.beam import Comparison, Node, Tree
from ui.components.packing import pack

_KINDS = tuple(OUTCOMES)


@dataclass(frozen=True)
class TreeChoice:
    """The choice in the tree.

    Attributes:
        a, b: indices of nodes, or None.
        dropped: whether dropped candidates are shown.
    """

    a: int | None
    b: int | None
    dropped: bool


def branch_colours(theme: str) -> tuple[str, str]:
    """Return the colours of A and B as hex, distinct from the accent and from each other."""
    colours = categorical(4, "dark" if theme == "dark" else "light")
    return colours[1], colours[3]


def choice_in(held: Any, tree_id: str, tree: Tree) -> TreeChoice | None:
    """Return the reported choice, or None if it is not valid for this tree.

    Browser input is not trusted.
    """
    view = held.get("view") if isinstance(held, Mapping) else None
    if not isinstance(view, Mapping) or view.get("tree") != tree_id:
        return None
    a, b, dropped = view.get("a"), view.get("b"), view.get("dropped")
    for index in (a, b):
        if index is None:
            continue
        if not isinstance(index, int) or isinstance(index, bool):
            return None
        if not 0 <= index < len(tree.nodes):
            return None
    if not isinstance(dropped, bool):
        return None
    return TreeChoice(a, b, dropped)


def encode(
    tree: Tree, tree_id: str, start: TreeChoice, label: str, nonce: int = 0, *, single: bool = False
) -> bytes:
    """Return everything the view shows of a tree as one message (see `ui.components.packing`).

    Args:
        tree_id: identifies the tree in every report.
        start: the initial choice.
        label: the tree in words, for screen readers.
        nonce: a new number resets an open view to `start`.
        single: only one node, A, can be chosen.
    """
    texts: dict[str, int] = {}
    for node in tree.nodes:
        texts.setdefault(_shown(node.token), len(texts))
    winner = frozenset(tree.winner)
    header = {
        "tree": tree_id,
        "start": {"a": start.a, "b": start.b, "dropped": start.dropped, "nonce": nonce},
        "label": label,
        "beam": tree.beam_size,
        "texts": list(texts),
        "outcomes": list(OUTCOMES.values()),
        "parent": [node.parent for node in tree.nodes],
        "step": [node.step for node in tree.nodes],
        "rank": [node.rank for node in tree.nodes],
        "text": [texts[_shown(node.token)] for node in tree.nodes],
        "log_prob": [_finite(node.log_prob) for node in tree.nodes],
        "total": [_finite(node.total) for node in tree.nodes],
        "score": [_finite(node.score) for node in tree.nodes],
        "kind": [_KINDS.index(node.outcome) for node in tree.nodes],
        # 2: on the winner's path, 1: on the path of another finished one, 0: neither.
        "line": [
            2 if node.index in winner else int(node.index in tree.alive) for node in tree.nodes
        ],
        "colours": {theme: branch_colours(theme) for theme in THEMES},
    }
    if single:
        header["single"] = True
    return pack(header, b"")


def encode_branches(comparison: Comparison) -> bytes:
    """Return the message that `branches` draws."""

    def row(nodes: tuple[Node, ...]) -> list[list[object]]:
        return [[_shown(node.token), _finite(node.log_prob)] for node in nodes]

    header = {
        "a": row(comparison.a),
        "b": row(comparison.b),
        "shared": comparison.shared,
        "colours": {theme: branch_colours(theme) for theme in THEMES},
    }
    return pack(header, b"")


@lru_cache(maxsize=4096)
def _shown(token: str) -> str:
    return show_token(token)


def _finite(value: float) -> float:
    """Round to four decimals; -inf, which JSON cannot represent, becomes a very low number."""
    return round(max(value, -1e6), 4)
