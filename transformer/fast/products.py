"""x W^T + b for decoding, laid out to read memory fast.

With few rows, a matrix product takes as long as reading its weights. PyTorch's usual path reaches
only part of the memory bandwidth, so on a CPU

- large matrices are packed once into oneDNN's block layout, which is read at full speed with any
  number of rows; the activation and the residual sum are fused into the product;
- without oneDNN (another build, another precision), few rows are computed as W h^T, which reads two
  to three times faster than h W^T;
- small matrices stay in the processor's caches, where the plain product is fastest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

#: Smallest matrix, in weights, for which packing is worth its overhead.
PACKED_FROM = 200_000
#: Most rows for which W h^T is faster than h W^T when weights come from memory.
FEW_ROWS = 4
#: Number of rows that oneDNN packs for; the layout is as good for hundreds.
USUAL_ROWS = 4

Activation = Callable[[Tensor], Tensor]
#: A weight [n_out, n_in] and a bias [n_out], or None.
Parts = tuple[Tensor, Tensor | None]

#: Activations that oneDNN fuses into a product: its name and variant for each.
FUSED: dict[Activation, tuple[str, str]] = {
    F.relu: ("relu", ""),
    F.silu: ("swish", ""),
    F.gelu: ("gelu", "none"),
}


class Product:
    """x W^T + b, optionally followed by an activation or added to another tensor.

    Attributes:
        weight: [n_out, n_in].  bias: [n_out] or None.  activation: applied last, or None.
    """

    def __init__(
        self, weight: Tensor, bias: Tensor | None = None, activation: Activation | None = None
    ) -> None:
        self.weight, self.bias, self.activation = weight, bias, activation
        self._packed: Tensor | None = None
        self._after = ("none", "") if activation is None else FUSED.get(activation)
        large = weight.device.type == "cpu" and weight.numel() >= PACKED_FROM
        if large and weight.dtype == torch.float32 and self._after is not None and _has_onednn():
            self._packed = torch.ops.mkldnn._reorder_linear_weight(weight, USUAL_ROWS)
            # From here on only its shape is used.
            self.weight = weight.to("meta")
        self._from_memory = large and self._packed is None

    def __call__(self, x: Tensor, added: Tensor | None = None) -> Tensor:
        """Map x [R, n_in] to [R, n_out], plus `added` [R, n_out] if given (then no activation)."""
        if self._packed is not None:
            return self._with_onednn(x, added)
        if self._from_memory and x.size(0) <= FEW_ROWS:
            # A single row would take the slow matrix-vector path.
            columns = x.t() if x.size(0) > 1 else x.repeat(2, 1).t()
            result = torch.mm(self.weight, columns).t()[: x.size(0)]
            result = (result if self.bias is None else result + self.bias).contiguous()
        else:
            result = F.linear(x, self.weight, self.bias)
        if added is not None:
            return result + added
        return result if self.activation is None else self.activation(result)

    def _with_onednn(self, x: Tensor, added: Tensor | None) -> Tensor:
        pointwise = torch.ops.mkldnn._linear_pointwise
        if added is not None:
            return pointwise.binary(x, added, self._packed, self.bias, "add")  # type: ignore[no-any-return]
        assert self._after is not None
        name, kind = self._after
        return pointwise.default(x, self._packed, self.bias, name, [], kind)  # type: ignore[no-any-return]


@cache
def _has_onednn() -> bool:
    """Whether this build of PyTorch multiplies with packed weights correctly.

    These operations are internal to PyTorch's compiler and may change; if so, do without them.
    """
    draw = torch.Generator().manual_seed(0)
    x, weight, bias, added = (
        torch.randn(shape, generator=draw) for shape in ((3, 8), (5, 8), (5,), (3, 5))
    )
    try:
        packed = torch.ops.mkldnn._reorder_linear_weight(weight, USUAL_ROWS)
        pointwise = torch.ops.mkldnn._linear_pointwise
        fused = [
            pointwise.default(x, packed, bias, name, [], kind)
            for name, kind in (("none", ""), *FUSED.values())
        ]
        fused.append(pointwise.binary(x, added, packed, bias, "add"))
    except (AttributeError, RuntimeError, TypeError):
        return False
    plain = F.linear(x, weight, bias)
    wanted = [plain, *(activation(plain) for activation in FUSED), plain + added]
    return all(
        torch.allclose(one, other, atol=1e-5) for one, other in zip(fused, wanted, strict=True)
    )


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
