"""Similarity of two models' heads, with the best pairing marked.

Rows are heads of the first model, columns heads of the second, with a gap after every layer. A
click or Enter chooses a pair.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transformer.measures.compare import HeadPair
from ui.components.packing import Component, attention_look, floats, index_pair


@dataclass(frozen=True, eq=False)
class Likeness:
    """Similarities of two models' heads.

    Raises: `ValueError` if the shapes disagree.
    """

    values: NDArray[np.floating]  # [A, B], 0 to 1
    #: (layers, heads) of both models; A and B are their products
    shapes: tuple[tuple[int, int], tuple[int, int]]
    pairs: tuple[HeadPair, ...]  # pairs to mark
    names: tuple[str, str]  # names of both models
    about: str = ""  # suffix of the label for screen readers

    def __post_init__(self) -> None:
        expected = tuple(layers * heads for layers, heads in self.shapes)
        if self.values.shape != expected or 0 in expected:
            raise ValueError(f"similarities of shape {self.values.shape}; expected {expected}")

    def component(self, chosen: HeadPair) -> Component[HeadPair]:
        """Return the similarities as a component; `chosen` is outlined if inside the matrix."""
        best = max(self.pairs, key=lambda pair: self.values[pair], default=(0, 0))
        header = {
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
        sizes = self.values.shape
        return Component(
            "match", header, floats([self.values]), choice=list(chosen),
            parse=lambda reported: index_pair(reported, sizes),
        )  # fmt: skip

    @property
    def ends(self) -> tuple[float, float]:
        """Ends of the colour scale; similarities of trained heads are far from 0."""
        low, high = float(self.values.min()), float(self.values.max())
        low, high = math.floor(low * 100) / 100, math.ceil(high * 100) / 100
        return (low, high) if high - low >= 0.01 else (0.0, 1.0)


def head_name(at: int, shape: tuple[int, int]) -> str:
    """Return the name `layer.head`, both 1-based, of a head counted through all layers."""
    layer, head = divmod(at, shape[1])
    return f"{layer + 1}.{head + 1}"
