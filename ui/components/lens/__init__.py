"""One attention map, large, with labels on both axes and exact values on hover.

A canvas and not a Plotly chart: the first Plotly chart of a visit takes seconds to appear, and this
is the first thing a page shows. Maps of more than `MOST_TOKENS` a side have thinned labels here and
are better read in `figures.attention.heatmap`, where one can zoom.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from figures.attention import check_map, describe
from figures.compare import describe_difference, scale_limit
from figures.exhibit import Panel
from transformer.types import Floats
from ui.components.packing import Component, attention_look, floats, is_index, labels

#: Sides up to this long keep cells that a pointer can hit and labels that an eye can read.
MOST_TOKENS = 64


#: Positions of chosen (queries, keys), in order.
Selection = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class Map:
    """A map for the lens.

    Raises: `ValueError` if the shape is not [queries, keys].
    """

    weights: Floats  # [queries, keys]
    #: query_tokens, key_tokens: the labels; of decoder rows those of `figures.labels.row_labels`
    query_tokens: Sequence[str]
    key_tokens: Sequence[str]
    name: str  # its name for screen readers ("Layer 2, head 3")
    #: query_title, key_title: axis titles; shown after "query:" and "key:"
    query_title: str
    key_title: str
    dimmed_keys: Sequence[int] = ()  # columns covered in grey; hovering still shows their values
    causal: bool = False  # keys after the query are masked; they look different from weights of 0
    #: for differences, -1 to 1, the names of the ends of a diverging scale, the negative one first;
    #: None for weights
    signed: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        check_map(self.weights, self.query_tokens, self.key_tokens)

    def panel(self) -> Panel:
        """Return the map as a part of a download."""
        return Panel(
            self.name, self.weights, tuple(self.query_tokens), tuple(self.key_tokens),
            f"query: {self.query_title}", f"key: {self.key_title}",
            *(("diverging", "A − B") if self.signed else ()),
        )  # fmt: skip

    def lens(
        self, max_height: int = 640, selected: Selection | None = None, *, asks: bool = False
    ) -> Component[Selection]:
        """Return the map as a component.

        Args:
            max_height: largest height of labels and cells together, in pixels.
            selected: tokens whose labels are marked; None makes labels inactive.
            asks: whether a click on a cell reports its "pair", [query, key].
        """
        tell = describe_difference if self.signed else describe
        described = tell(self.weights, self.query_tokens, self.key_tokens)
        header = {
            "label": f"{self.name}: {described}. Arrow keys read the values.",
            "query_tokens": labels(self.query_tokens, 18),
            "key_tokens": labels(self.key_tokens, 18),
            "query_title": f"query: {self.query_title}",
            "key_title": f"key: {self.key_title}",
            "dimmed": sorted(self.dimmed_keys),
            "causal": self.causal,
            "max_height": max_height,
            "limit": scale_limit(self.weights) if self.signed else 0,
            "ends": self.signed or [],
            **attention_look(signed=self.signed is not None),
            "selectable": selected is not None,
            "asks": asks,
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
    """Return the reported selection, or None if it is not valid for this map."""
    if not isinstance(reported, list | tuple) or len(reported) != 2:
        return None
    for side, length in zip(reported, (queries, keys), strict=True):
        if not isinstance(side, list | tuple) or not all(is_index(each, length) for each in side):
            return None
    rows, columns = (tuple(sorted(set(side))) for side in reported)
    return rows, columns
