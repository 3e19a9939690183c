"""Beam search tree on a canvas: columns are steps, rows are ranks; click or use arrow keys.

Moving, zooming, hiding dropped candidates and choosing nodes A and B need no rerun.
"""

from dataclasses import asdict, dataclass
from typing import Any

from figures.labels import show_token
from figures.outcomes import OUTCOMES
from figures.palette import THEMES, categorical
from transformer.measures.beam import Comparison, Tree
from ui.components.packing import Component, fields, finite
from ui.components.strip import strip_component

_KINDS = tuple(OUTCOMES)
_PLACE = ("parent", "step", "rank")
_SCORES = ("log_prob", "total", "score")


@dataclass(frozen=True)
class TreeChoice:
    """A choice in the tree."""

    #: a, b: node indices, or None
    a: int | None
    b: int | None
    dropped: bool  # whether dropped candidates are shown


def branch_colours(theme: str) -> tuple[str, str]:
    """Return the hex colours of A and B, unlike the accent, queries, keys and values."""
    colours = categorical(15, "dark" if theme == "dark" else "light")
    return colours[2], colours[14]


def tree_component(
    tree: Tree, chosen: TreeChoice, label: str, *, of: str = "", single: bool = False
) -> Component[TreeChoice]:
    """Return a tree as a component.

    Args:
        label: description for screen readers.
        of: tree identifier.
        single: allow only node A to be chosen.
    """
    texts: dict[str, int] = {}
    for node in tree.nodes:
        texts.setdefault(show_token(node.token), len(texts))
    winner = frozenset(tree.winner)
    header = {
        "label": label,
        "beam": tree.beam_size,
        "root": show_token(tree.root),
        "texts": list(texts),
        "outcomes": list(OUTCOMES.values()),
        "text": [texts[show_token(node.token)] for node in tree.nodes],
        **{name: [getattr(node, name) for node in tree.nodes] for name in _PLACE},
        **{name: [finite(getattr(node, name)) for node in tree.nodes] for name in _SCORES},
        "kind": [_KINDS.index(node.outcome) for node in tree.nodes],
        # 2: on the winner's path, 1: on another finished hypothesis's path, 0: neither.
        "line": [
            2 if node.index in winner else int(node.index in tree.alive) for node in tree.nodes
        ],
        "colours": {theme: branch_colours(theme) for theme in THEMES},
    }
    if single:
        header["single"] = True
    at = (None, range(len(tree.nodes)))

    def parse(reported: Any) -> TreeChoice | None:
        report = fields(reported, a=at, b=at, dropped=(False, True))
        return None if report is None else TreeChoice(**report)

    return Component("tree", header, choice=asdict(chosen), parse=parse, of=of)


def branch_components(comparison: Comparison) -> tuple[Component[None], ...]:
    """Return both paths as rows of tokens with log-probabilities, what they do not share marked."""
    return tuple(
        strip_component(
            [node.token for node in path], [node.log_prob for node in path],
            range(comparison.shared, len(path)), label=f"Tokens of {name}, log-probabilities below",
            parts_at=comparison.shared, lead=name,
        )
        for name, path in (("A", comparison.a), ("B", comparison.b))
    )  # fmt: skip
