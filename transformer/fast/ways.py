"""Ways to compute x W^T + b on a CPU: the same sums, added up in another order.

With few rows, a matrix product takes as long as reading its weights, and none of these ways reads
them at full speed for every shape on every processor. `transformer.fast.choice` finds the best.

- "rows": PyTorch's plain product.
- "columns": W h^T, the activations column by column, for few rows.
- "dense": oneDNN's product of the weights as they lie in memory.
- "packed": oneDNN's product of weights copied into its own block layout.
- "convolved": oneDNN's convolution of four pixels, for few rows, from another such copy.
- "slices": each thread multiplies by some of W's rows, for a single row.
- "transposed": each thread multiplies some of the row by a copy of W^T, for a single row.

oneDNN fuses the activation, or the sum with another tensor, into the product.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from transformer.kernels import relu

#: The most rows that count as few: the paper's beam. oneDNN packs for it; "packed" is as good for
#: hundreds of rows.
FEW_ROWS = 4

Activation = Callable[[Tensor], Tensor]

#: Activations that oneDNN fuses into a product: its name and variant for each.
FUSED: dict[Activation, tuple[str, str]] = {
    relu: ("relu", ""),
    F.silu: ("swish", ""),
    F.gelu: ("gelu", "none"),
}


class Rows:
    """h W^T. The base of the other ways."""

    #: The most rows for which a way can be the fastest; it is right for more, too.
    most_rows: ClassVar[float] = math.inf

    def __init__(
        self, weight: Tensor, bias: Tensor | None = None, activation: Activation | None = None
    ) -> None:
        """Args: weight: [n_out, n_in].  bias: [n_out].  activation: applied last, or None."""
        self.weight, self.bias, self.activation = weight, bias, activation
        self._prepare()

    def _prepare(self) -> None:
        """Lay out the weights. A copy replaces `weight`, so that no other one is kept."""

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

    def _prepare(self) -> None:
        self._column = None if self.bias is None else self.bias[:, None]

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

    def _prepare(self) -> None:
        self.weight = torch.ops.mkldnn._reorder_linear_weight(self.weight, FEW_ROWS)


#: Padding, and stride and dilation, of a convolution of each pixel alone.
_NONE, _EACH = [0, 0], [1, 1]


class Convolved(Rows):
    """A 1 x 1 convolution of four pixels, whose channels are the inputs, from a copy of W.

    It reads several blocks of weights side by side. oneDNN would lay the weights out anew for other
    numbers of pixels, so rows come in fours, the last ones filled up.
    """

    most_rows = FEW_ROWS

    def _prepare(self) -> None:
        pixels = [1, self.weight.size(1), 1, FEW_ROWS]
        self.weight = torch.ops.mkldnn._reorder_convolution_weight(
            self.weight[:, :, None, None], _NONE, _EACH, _EACH, 1, pixels
        )

    def _product(self, x: Tensor) -> Tensor:
        n_rows = len(x)
        if n_rows == FEW_ROWS:
            return self._four(x)
        filled = F.pad(x, (0, 0, 0, -n_rows % FEW_ROWS))
        fours = [self._four(each) for each in torch.split(filled, FEW_ROWS)]
        return (fours[0] if len(fours) == 1 else torch.cat(fours))[:n_rows]

    def _four(self, x: Tensor) -> Tensor:
        pixels = x.t()[None, :, None]  # [1, n_in, 1, R]
        made = torch.ops.mkldnn._convolution_pointwise(
            pixels, self.weight, self.bias, _NONE, _EACH, _EACH, 1, "none", [], ""
        )
        return made[0, :, 0].t()  # type: ignore[no-any-return]


class Slices(Rows):
    """[h W_1^T, h W_2^T, ...] of the slices W_i of W's rows, in one batched product.

    With a single row, threads that share one product wait for each other longer.
    """

    most_rows = 1

    def _prepare(self) -> None:
        n_out, n_in = self.weight.shape
        n = _n_slices(n_out)
        self.weight = self.weight.view(n, -1, n_in).mT  # [n, n_in, n_out / n]
        self._biases = None if self.bias is None else self.bias.view(n, 1, -1)

    def _product(self, x: Tensor) -> Tensor:
        rows = x.expand(len(self.weight), -1, -1)
        if self._biases is None:
            result = torch.bmm(rows, self.weight)
        else:
            result = torch.baddbmm(self._biases, rows, self.weight)
        return result.transpose(0, 1).flatten(1)


class Transposed(Rows):
    """h_1 W_1^T + h_2 W_2^T + ... of the slices h_i and W_i of h's and W's columns."""

    most_rows = 1

    def _prepare(self) -> None:
        n_out, n_in = self.weight.shape
        n = _n_slices(n_in)
        self.weight = self.weight.t().contiguous().view(n, -1, n_out)
        self._first: Tensor | None = None
        if self.bias is not None:  # one of the sums begins with it
            self._first = self.bias.new_zeros(n, 1, n_out)
            self._first[0, 0] = self.bias

    def _product(self, x: Tensor) -> Tensor:
        sliced = x.view(len(x), len(self.weight), -1).transpose(0, 1)
        if self._first is None:
            return torch.bmm(sliced, self.weight).sum(0)
        return torch.baddbmm(self._first, sliced, self.weight).sum(0)


def _n_slices(size: int) -> int:
    """Return one slice per thread, at least two; fewer where `size` has no such divisor."""
    most = max(2, torch.get_num_threads())
    return max(n for n in range(1, most + 1) if size % n == 0)


WAYS: dict[str, type[Rows]] = {
    "rows": Rows, "columns": Columns, "dense": Dense, "packed": Packed,
    "convolved": Convolved, "slices": Slices, "transposed": Transposed,
}  # fmt: skip

#: Those that are oneDNN's, in float32 only.
ONEDNN = ("dense", "packed", "convolved")


def ways_for(weight: Tensor, activation: Activation | None = None) -> tuple[str, ...]:
    """Return the ways that can compute a product here."""
    if weight.device.type != "cpu":
        return ("rows",)
    if weight.dtype != torch.float32 or not (activation is None or activation in FUSED):
        return tuple(name for name in WAYS if name not in ONEDNN)
    return tuple(name for name in WAYS if name not in ONEDNN or works(name))


@cache
def works(name: str) -> bool:
    """Whether this build of PyTorch has a way of oneDNN's, and it is right.

    These operations are internal to PyTorch's compiler and may change; if so, do without them.
    """
    draw = torch.Generator().manual_seed(0)
    x, weight, bias, added = (
        torch.randn(shape, generator=draw) for shape in ((3, 8), (5, 8), (5,), (3, 5))
    )
    plain = F.linear(x, weight, bias)
    try:
        for activation in (None, *FUSED):
            made = WAYS[name](weight, bias, activation)
            wanted = plain if activation is None else activation(plain)
            if not torch.allclose(made(x), wanted, atol=1e-5):
                return False
            if not torch.allclose(made(x, added), plain + added, atol=1e-5):
                return False
    except (AttributeError, RuntimeError, TypeError):
        return False
    return True
