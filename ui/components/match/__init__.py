"""Similarity of every head of one model to every head of another, with the best pairing marked.

Rows are heads of the first model, columns heads of the second, with a gap after each layer.
A click, or Enter on the cell under the cursor, chooses a pair.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ui.components.packing import attention_look, still

#: A head of each model, both 0-based and counted through all layers.
HeadPair = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Likeness:
    """The similarities to show.

    Attributes:
        values: [A, B], 0 to 1.
        shapes: (layers, heads) of both models; A and B are their products.
        pairs: the pairing to mark.
        names: the names of both models.
        about: added to the label for screen readers.

    Raises: `ValueError` if the shapes disagree.
    """

    values: NDArray[np.floating]
    shapes: tuple[tuple[int, int], tuple[int, int]]
    pairs: tuple[HeadPair, ...]
    names: tuple[str, str]
    about: str = ""

    def __post_init__(self) -> None:
        expected = tuple(layers * heads for layers, heads in self.shapes)
        if self.values.shape != expected or 0 in expected:
            raise ValueError(f"similarities of shape {self.values.shape}; expected {expected}")

    def header(self) -> dict[str, Any]:
        """Return the message's header, without the choice."""
        best = max(self.pairs, key=lambda pair: self.values[pair], default=(0, 0))
        return {
            "label": f"How alike {self.names[0]} (rows) and {self.names[1]} (columns) are, head by "
            f"head{self.about}. The most alike of the {len(self.pairs)} matched pairs are "
            f"{head_name(best[0], self.shapes[0])} and {head_name(best[1], self.shapes[1])}, "
            f"{self.values[best]:.2f}. Arrow keys move, Enter shows a pair.",
            "names": list(self.names),
            "heads": [shape[1] for shape in self.shapes],
            "rows": [head_name(at, self.shapes[0]) for at in range(self.values.shape[0])],
            "columns": [head_name(at, self.shapes[1]) for at in range(self.values.shape[1])],
            "pairs": [list(pair) for pair in self.pairs],
            "ends": self.ends,
            **attention_look(),
        }

    @property
    def ends(self) -> tuple[float, float]:
        """Return the ends of the colour scale; similarities of real heads are far from 0."""
        low, high = float(self.values.min()), float(self.values.max())
        low, high = math.floor(low * 100) / 100, math.ceil(high * 100) / 100
        return (low, high) if high - low >= 0.01 else (0.0, 1.0)

    def body(self) -> bytes:
        """Return the similarities as float32, row by row."""
        return np.ascontiguousarray(self.values, dtype="<f4").tobytes()


def head_name(at: int, shape: tuple[int, int]) -> str:
    """Return the name `layer.head`, both 1-based, of a head counted through all layers."""
    layer, head = divmod(at, shape[1])
    return f"{layer + 1}.{head + 1}"


def still_matches(shown: Likeness, chosen: HeadPair) -> bytes:
    """Return the message for an offline page."""
    return still(shown.header(), shown.body(), list(chosen))


def parse_pair(reported: Any, rows: int, columns: int) -> HeadPair | None:
    """Return the reported pair, or None if it is not valid."""
    if not isinstance(reported, Sequence) or isinstance(reported, str) or len(reported) != 2:
        return None
    for at, limit in zip(reported, (rows, columns), strict=True):
        if type(at) is not int or not 0 <= at < limit:
            return None
    return reported[0], reported[1]
