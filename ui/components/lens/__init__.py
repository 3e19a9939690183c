"""One large attention map with labels on both axes and exact values on hover.

It is a canvas because the first Plotly chart of a visit takes seconds to appear. Labels of maps
with more than `MOST_TOKENS` per side are thinned out; `figures.attention.heatmap` zooms into those.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from figures.attention import check_map, describe, describe_difference, describe_effect, scale_limit
from figures.exhibit import Panel
from transformer.types import Floats
from ui.components.packing import Component, attention_look, fits, floats, labels

#: Longest side whose cells are large enough to point at and whose labels are legible.
MOST_TOKENS = 64

#: Positions of chosen (queries, keys), in order.
Selection = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class Map:
    """A map for the lens.

    Raises: `ValueError` if the shape is not [queries, keys].
    """

    weights: Floats  # [queries, keys]
    #: query_tokens, key_tokens: labels; `figures.labels.row_labels` for decoder rows
    query_tokens: Sequence[str]
    key_tokens: Sequence[str]
    name: str  # for screen readers ("Layer 2, head 3")
    #: query_title, key_title: axis titles after "query:" and "key:"
    query_title: str
    key_title: str
    dimmed_keys: Sequence[int] = ()  # columns covered in grey, values still shown on hover
    causal: bool = False  # keys after the query are masked and look different from a weight of 0
    #: labels of the diverging scale's ends, negative first, if the map holds differences
    signed: tuple[str, str] | None = None
    ringed: Sequence[tuple[int, int]] = ()  # framed cells
    changed: Sequence[Sequence[int]] = ((), ())  # queries and keys with marked labels
    foot: float = 4.5  # rem below the cells of what has to stay in sight for a class
    paired: bool = False  # has the size of the map beside it
    noun: str = ""  # name of a number in the map, "" for an attention weight or its difference
    out: bool = False  # whether the head is removed, and the map hatched
    asked: str = ""  # heads that look at the framed cell

    def __post_init__(self) -> None:
        check_map(self.weights, self.query_tokens, self.key_tokens)

    def panel(self) -> Panel:
        """Return the map as a download panel."""
        return Panel(
            self.name, self.weights, tuple(self.query_tokens), tuple(self.key_tokens),
            f"query: {self.query_title}", f"key: {self.key_title}",
            *(("diverging", self.noun or "A − B") if self.signed else ("attention", self.noun)),
        )  # fmt: skip

    def lens(
        self, max_height: int = 640, selected: Selection | None = None, *, asks: bool = False
    ) -> Component[Selection]:
        """Return the map as a component.

        Args:
            max_height: largest total height of labels and cells in pixels.
            selected: tokens whose labels are marked; None makes labels inactive.
            asks: report a clicked cell as "pair", [query, key].
        """
        words = self.weights, self.query_tokens, self.key_tokens
        if self.signed and self.noun:
            summary = describe_effect(*words)
        else:
            summary = (describe_difference if self.signed else describe)(*words)
        header = {
            "label": f"{self.name}: {summary}. Arrow keys read the values.",
            "query_tokens": labels(self.query_tokens, 18),
            "key_tokens": labels(self.key_tokens, 18),
            "query_title": f"query: {self.query_title}",
            "key_title": f"key: {self.key_title}",
            "dimmed": sorted(self.dimmed_keys),
            "causal": self.causal,
            "max_height": max_height,
            "ringed": self.ringed,
            "changed": self.changed,
            "foot": self.foot,
            "paired": self.paired,
            "limit": (limit := scale_limit(self.weights) if self.signed else 0),
            "range": [limit if (by * self.weights).max() > limit / 20 else 0 for by in (-1, 1)],
            "ends": self.signed or [],
            **attention_look(signed=self.signed is not None, noun=self.noun),
            "selectable": selected is not None,
            "asks": asks,
            **({"out": True} if self.out else {}),
            **({"asked": [*self.ringed[0], self.asked]} if self.asked else {}),
        }
        body = floats([self.weights])
        if selected is None:
            return Component("lens", header, body)
        sizes = self.weights.shape
        return Component(
            "lens", header, body, choice=[list(side) for side in selected],
            parse=lambda reported: parse_selection(reported, *sizes),
        )  # fmt: skip


def parse_selection(reported: Any, queries: int, keys: int) -> Selection | None:
    """Return a reported selection, or None if it is invalid for this map."""
    if not isinstance(reported, list | tuple) or len(reported) != 2:
        return None
    for side, length in zip(reported, (queries, keys), strict=True):
        if not isinstance(side, list | tuple) or not all(fits(at, range(length)) for at in side):
            return None
    rows, columns = (tuple(sorted(set(side))) for side in reported)
    return rows, columns
