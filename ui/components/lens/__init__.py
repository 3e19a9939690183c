"""One attention map, large, with labels on both axes and exact values on hover.

A canvas and not a Plotly chart: the first Plotly chart of a visit takes seconds to appear, and this
is the first thing a page shows. Maps of more than `MOST_TOKENS` a side have thinned labels here and
are better read in `figures.attention.heatmap`, where one can zoom.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from figures.attention import check_map, describe
from figures.compare import describe_difference, scale_limit
from figures.labels import show_token
from figures.palette import THEMES, signed_table
from transformer.types import Floats
from ui.components.packing import attention_look, colours_as_text, still

#: Sides up to this long keep cells that a pointer can hit and labels that an eye can read.
MOST_TOKENS = 64


#: Positions of chosen (queries, keys), in order.
Selection = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class Map:
    """A map for the lens.

    Attributes:
        weights: [queries, keys].
        query_tokens, key_tokens: the labels; of decoder rows those of `figures.labels.row_labels`.
        name: its name for screen readers ("Layer 2, head 3").
        query_title, key_title: axis titles; shown after "query:" and "key:".
        dimmed_keys: columns covered in grey; hovering still shows their values.
        causal: keys after the query are masked; they look different from weights of 0.
        signed: for differences, -1 to 1, the names of the ends of a diverging scale, the negative
            one first; None for weights.

    Raises: `ValueError` if the shape is not [queries, keys].
    """

    weights: Floats
    query_tokens: Sequence[str]
    key_tokens: Sequence[str]
    name: str
    query_title: str
    key_title: str
    dimmed_keys: Sequence[int] = ()
    causal: bool = False
    signed: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        check_map(self.weights, self.query_tokens, self.key_tokens)

    def header(self, max_height: int) -> dict[str, Any]:
        """Return the message's header, without the selection."""
        tell = describe_difference if self.signed else describe
        described = tell(self.weights, self.query_tokens, self.key_tokens)
        look = attention_look()
        if self.signed:
            look["colours"] = {theme: colours_as_text(signed_table(theme)) for theme in THEMES}
        return {
            "label": f"{self.name}: {described}. Arrow keys read the values.",
            "query_tokens": [show_token(token, 18) for token in self.query_tokens],
            "key_tokens": [show_token(token, 18) for token in self.key_tokens],
            "query_title": f"query: {self.query_title}",
            "key_title": f"key: {self.key_title}",
            "dimmed": sorted(self.dimmed_keys),
            "causal": self.causal,
            "max_height": max_height,
            "limit": scale_limit(self.weights) if self.signed else 0,
            "ends": self.signed or [],
            **look,
        }

    def body(self) -> bytes:
        """Return the weights as float32, row by row."""
        return np.ascontiguousarray(self.weights, dtype="<f4").tobytes()


def still_lens(shown: Map, max_height: int = 640) -> bytes:
    """Return the lens's message for an offline page."""
    return still({**shown.header(max_height), "selectable": False}, shown.body(), [[], []])


def parse_selection(reported: Any, queries: int, keys: int) -> Selection | None:
    """Return the reported selection, or None if it is not valid for this map."""
    if not isinstance(reported, list | tuple) or len(reported) != 2:
        return None
    sides = []
    for side, length in zip(reported, (queries, keys), strict=True):
        if not isinstance(side, list | tuple):
            return None
        if not all(type(each) is int and 0 <= each < length for each in side):
            return None
        sides.append(tuple(sorted(set(side))))
    return sides[0], sides[1]
