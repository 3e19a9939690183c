"""Ways to compute x W^T + b on a CPU: the same sums, added up in another order.

With few rows, a matrix product takes as long as reading its weights, and none of these ways reads
them at full speed for every shape on every processor. `transformer.fast.choice` finds the best.

- "rows": PyTorch's plain product.
- "columns": W h^T, the activations column by column, for few rows.
- "dense": oneDNN's product of the weights as they lie in memory.
- "packed": oneDNN's product of weights copied into its own block layout.

oneDNN fuses the activation, or the sum with another tensor, into the product.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

#: Number of rows that oneDNN packs for; the layout is as good for hundreds.
PACKED_ROWS = 4

Activation = Callable[[Tensor], Tensor]

#: Activations that oneDNN fuses into a product: its name and variant for each.
FUSED: dict[Activation, tuple[str, str]] = {
    F.relu: ("relu", ""),
    F.silu: ("swish", ""),
    F.gelu: ("gelu", "none"),
}


class Rows:
    """h W^T. The base of the other ways."""

    def __init__(
        self, weight: Tensor, bias: Tensor | None = None, activation: Activation | None = None
    ) -> None:
        """Args: weight: [n_out, n_in].  bias: [n_out].  activation: applied last, or None."""
        self.weight, self.bias, self.activation = weight, bias, activation

    def __call__(self, x: Tensor, added: Tensor | None = None) -> Tensor:
        """Map x [R, n_in] to [R, n_out], plus `added` [R, n_out] if given (then no activation)."""
        result = self._product(x)
        if added is not None:
            return result + added
        return result if self.activation is None else self.activation(result)

    def _product(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


class Columns(Rows):
    """(W h^T)^T."""

    def __init__(
        self, weight: Tensor, bias: Tensor | None = None, activation: Activation | None = None
    ) -> None:
        """See `Rows`."""
        super().__init__(weight, bias, activation)
        self._column = None if bias is None else bias[:, None]

    def _product(self, x: Tensor) -> Tensor:
        n_rows = x.size(0)
        # A single column would take the slow matrix-vector path.
        columns = (x if n_rows > 1 else x.repeat(2, 1)).t()
        if self._column is None:
            product = torch.mm(self.weight, columns)
        else:
            product = torch.addmm(self._column, self.weight, columns)
        return product[:, :n_rows].t().contiguous()


class Dense(Rows):
    """oneDNN's product, by an operation that PyTorch's compiler uses."""

    def __call__(self, x: Tensor, added: Tensor | None = None) -> Tensor:
        """See `Rows`."""
        pointwise = torch.ops.mkldnn._linear_pointwise
        if added is not None:
            return pointwise.binary(x, added, self.weight, self.bias, "add")  # type: ignore[no-any-return]
        name, kind = ("none", "") if self.activation is None else FUSED[self.activation]
        return pointwise.default(x, self.weight, self.bias, name, [], kind)  # type: ignore[no-any-return]


class Packed(Dense):
    """The same, from a copy of the weights."""

    def __init__(
        self, weight: Tensor, bias: Tensor | None = None, activation: Activation | None = None
    ) -> None:
        """See `Rows`."""
        packed = torch.ops.mkldnn._reorder_linear_weight(weight, PACKED_ROWS)
        super().__init__(packed, bias, activation)


WAYS: dict[str, type[Rows]] = {"rows": Rows, "columns": Columns, "dense": Dense, "packed": Packed}


def ways_for(weight: Tensor, activation: Activation | None = None) -> tuple[str, ...]:
    """Return the ways that can compute a product here: all four, or those of this PyTorch."""
    if weight.device.type != "cpu":
        return ("rows",)
    fused = activation is None or activation in FUSED
    if weight.dtype == torch.float32 and fused and has_onednn():
        return tuple(WAYS)
    return ("rows", "columns")


@cache
def has_onednn() -> bool:
    """Whether this build of PyTorch has oneDNN's products, and they are right.

    These operations are internal to PyTorch's compiler and may change; if so, do without them.
    """
    draw = torch.Generator().manual_seed(0)
    x, weight, bias, added = (
        torch.randn(shape, generator=draw) for shape in ((3, 8), (5, 8), (5,), (3, 5))
    )
    plain = F.linear(x, weight, bias)
    try:
        for activation in (None, *FUSED):
            wanted = plain if activation is None else activation(plain)
            for way in (Dense, Packed):
                made = way(weight, bias, activation)
                if not torch.allclose(made(x), wanted, atol=1e-5):
                    return False
                if not torch.allclose(made(x, added), plain + added, atol=1e-5):
                    return False
    except (AttributeError, RuntimeError, TypeError):
        return False
    return True
