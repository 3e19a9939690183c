"""x W^T + b for decoding: the same product, laid out for how this machine reads memory.

With few rows a product takes as long as reading its weights does. PyTorch's usual path gets far
less from memory than there is, so on a CPU

- larger matrices are packed once into oneDNN's blocks, which reads them at full speed with any
  number of rows, and joins the activation and the residual sum to the product;
- where oneDNN cannot be had (another build, another precision) W h^T is computed for few rows,
  which reads two to three times faster than h W^T;
- small matrices stay in the processor's caches, and the plain product is the quickest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

#: Packing is worth its overhead for a matrix with at least so many weights.
PACKED_FROM = 200_000
#: With at most so many rows W h^T is faster than h W^T where weights come from memory.
FEW_ROWS = 4
#: Packed for so many rows; the layout is as good for hundreds.
USUAL_ROWS = 4

Activation = Callable[[Tensor], Tensor]
#: A weight [n_out, n_in] and a bias [n_out], or None.
Parts = tuple[Tensor, Tensor | None]

#: Activations that oneDNN applies within the product: its name for them, and which kind.
FUSED: dict[Activation, tuple[str, str]] = {
    F.relu: ("relu", ""),
    F.silu: ("swish", ""),
    F.gelu: ("gelu", "none"),
}


class Product:
    """x W^T + b, perhaps with an activation after it, or added to something.

    Attributes:
        weight: [n_out, n_in].  bias: [n_out] or None.  activation: applied last, None for none.
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
            # The shape is all that is asked of it now.
            self.weight = weight.to("meta")
        self._from_memory = large and self._packed is None

    def __call__(self, x: Tensor, added: Tensor | None = None) -> Tensor:
        """Map x [R, n_in] to [R, n_out], plus `added` [R, n_out] where given (no activation)."""
        if self._packed is not None:
            return self._with_onednn(x, added)
        if self._from_memory and x.size(0) <= FEW_ROWS:
            # One row alone would take the slow way of a product with a vector.
            columns = x.t() if x.size(0) > 1 else x.repeat(2, 1).t()
            made = torch.mm(self.weight, columns).t()[: x.size(0)]
            made = (made if self.bias is None else made + self.bias).contiguous()
        else:
            made = F.linear(x, self.weight, self.bias)
        if added is not None:
            return made + added
        return made if self.activation is None else self.activation(made)

    def _with_onednn(self, x: Tensor, added: Tensor | None) -> Tensor:
        pointwise = torch.ops.mkldnn._linear_pointwise
        if added is not None:
            return pointwise.binary(x, added, self._packed, self.bias, "add")  # type: ignore[no-any-return]
        assert self._after is not None
        name, kind = self._after
        return pointwise.default(x, self._packed, self.bias, name, [], kind)  # type: ignore[no-any-return]


@cache
def _has_onednn() -> bool:
    """Whether this PyTorch multiplies with packed weights, in the way that it is asked to here.

    These operations are PyTorch's own, made for its compiler, and may change; then do without.
    """
    draw = torch.Generator().manual_seed(0)
    x, weight, bias, added = (
        torch.randn(shape, generator=draw) for shape in ((3, 8), (5, 8), (5,), (3, 5))
    )
    try:
        packed = torch.ops.mkldnn._reorder_linear_weight(weight, USUAL_ROWS)
        pointwise = torch.ops.mkldnn._linear_pointwise
        found = [
            pointwise.default(x, packed, bias, name, [], kind)
            for name, kind in (("none", ""), *FUSED.values())
        ]
        found.append(pointwise.binary(x, added, packed, bias, "add"))
    except (AttributeError, RuntimeError, TypeError):
        return False
    plain = F.linear(x, weight, bias)
    wanted = [plain, *(activation(plain) for activation in FUSED), plain + added]
    return all(
        torch.allclose(one, other, atol=1e-5) for one, other in zip(found, wanted, strict=True)
    )


def parts_of(linear: nn.Linear) -> Parts:
    """A layer's weight and bias, apart from the graph."""
    bias = linear.bias
    return linear.weight.detach(), None if bias is None else bias.detach()


def product(linear: nn.Linear, activation: Activation | None = None) -> Product:
    """One layer as a product."""
    return Product(*parts_of(linear), activation)


def stacked(parts: Sequence[Parts]) -> Product:
    """One product for several of the same input, one after the other in what it makes."""
    biases = [bias for _, bias in parts if bias is not None]
    return Product(
        torch.cat([weight for weight, _ in parts]), torch.cat(biases) if biases else None
    )
