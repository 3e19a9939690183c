"""x W^T + b for decoding, each product in the way that is fastest here for its number of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from transformer.fast.ways import FEW_ROWS, WAYS, Activation, Rows, ways_for

#: Smallest matrix, in weights, for which packing is usually worth its overhead.
PACKED_FROM = 200_000

#: A weight [n_out, n_in] and a bias [n_out], or None.
Parts = tuple[Tensor, Tensor | None]


class Names(NamedTuple):
    """The way that a product takes for one row, for the few rows of a beam, and for more."""

    one: str
    few: str
    many: str


class Product:
    """x W^T + b, optionally followed by an activation or added to another tensor.

    The first call settles how it is computed, unless `settle` did so before.

    Attributes:
        n_out, n_in, dtype: of W.  possible: names of the ways that can compute it.
        names: the ways that it takes, once they are settled.
    """

    def __init__(
        self, weight: Tensor, bias: Tensor | None = None, activation: Activation | None = None
    ) -> None:
        """Args: weight: [n_out, n_in].  bias: [n_out] or None.  activation: applied last."""
        self.n_out, self.n_in = weight.shape
        self.dtype = str(weight.dtype).removeprefix("torch.")
        self.possible = ways_for(weight, activation)
        self.names: Names | None = None
        self._made: dict[str, Rows] = {}
        self._taken: tuple[Rows, Rows, Rows] | None = None
        self._parts: tuple[Tensor, Tensor | None, Activation | None] | None
        self._parts = weight, bias, activation

    def __call__(self, x: Tensor, added: Tensor | None = None) -> Tensor:
        """Map x [R, n_in] to [R, n_out], plus `added` [R, n_out] if given (then no activation)."""
        if self._taken is None:
            self.settle(self.usual())
        assert self._taken is not None
        one, few, many = self._taken
        n_rows = x.size(0)
        return (one if n_rows == 1 else few if n_rows <= FEW_ROWS else many)(x, added)

    def usual(self) -> Names:
        """Return the ways that usually are best, by the size alone."""
        large = self.n_out * self.n_in >= PACKED_FROM
        if large and "packed" in self.possible:
            return Names("packed", "packed", "packed")
        if large and "columns" in self.possible:
            return Names("columns", "columns", "rows")
        return Names("rows", "rows", "rows")  # what stays in the processor's caches

    def way(self, name: str) -> Rows:
        """Return the product made ready in one way. Not to be called once it is settled."""
        assert self._parts is not None
        if name not in self._made:
            self._made[name] = WAYS[name](*self._parts)
        return self._made[name]

    def settle(self, names: Names) -> None:
        """Take these ways from now on, and let go of what the others need."""
        one, few, many = (self.way(name) for name in names)
        self.names, self._taken = names, (one, few, many)
        self._made, self._parts = {}, None

    def slices(self, rows: int) -> list[Product]:
        """Return unsettled products, each of the next `rows` rows of W, without a shorter rest."""
        assert self._parts is not None
        weight, bias, activation = self._parts
        return [
            Product(
                weight[first : first + rows],
                None if bias is None else bias[first : first + rows],
                activation,
            )
            for first in range(0, self.n_out - rows + 1, rows)
        ]


def parts_of(linear: nn.Linear) -> Parts:
    """Return a layer's weight and bias, detached."""
    bias = linear.bias
    return linear.weight.detach(), None if bias is None else bias.detach()


def product(linear: nn.Linear, activation: Activation | None = None) -> Product:
    """Return a layer as a product."""
    return Product(*parts_of(linear), activation)


def stacked(parts: Sequence[Parts]) -> Product:
    """Return one product that computes several, side by side, from the same input."""
    biases = [bias for _, bias in parts if bias is not None]
    return Product(
        torch.cat([weight for weight, _ in parts]), torch.cat(biases) if biases else None
    )
