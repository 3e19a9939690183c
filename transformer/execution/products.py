"""x W^T + b for decoding on a CPU, in the weight layout that is fastest for the rows of x.

With few rows, a product takes as long as reading its weights, and no layout is fastest for every
number of rows. `LAYOUTS` names the best layouts for large matrices; oneDNN fuses the activation, or
the sum with another tensor, into its products. Layouts differ only in the order of summation.
"""

from collections.abc import Callable, Sequence
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer.kernels import relu

#: Maximum number of rows that counts as few: the paper's beam size.
FEW_ROWS = 4
#: Smallest matrix, in weights, to pack, and smallest tall matrix to transpose for one row; smaller
#: ones stay in the processor's caches.
PACKED_FROM, TRANSPOSED_FROM = 50_000, 200_000

Activation = Callable[[Tensor], Tensor]

#: A weight [n_out, n_in] and a bias [n_out], or None.
Parts = tuple[Tensor, Tensor | None]

#: Activations that oneDNN fuses into a product, by name and variant.
FUSED: dict[Activation, tuple[str, str]] = {
    relu: ("relu", ""), F.silu: ("swish", ""), F.gelu: ("gelu", "none"),
}  # fmt: skip


class Plain:
    """PyTorch's product, with unchanged weights. Base class of the other layouts."""

    def __init__(
        self, weight: Tensor, bias: Tensor | None = None, activation: Activation | None = None
    ) -> None:
        """Args: weight: [n_out, n_in].  bias: [n_out].  activation: applied last, or None."""
        self.bias, self.activation = bias, activation
        self.weight = self._layout(weight)

    def _layout(self, weight: Tensor) -> Tensor:
        return weight

    def __call__(self, x: Tensor, added: Tensor | None = None) -> Tensor:
        """Map x [R, n_in] to [R, n_out], plus `added` [R, n_out] if given (then no activation)."""
        result = self._product(x)
        if added is not None:
            return result + added
        return result if self.activation is None else self.activation(result)

    def _product(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


class Packed(Plain):
    """oneDNN's product, with weights copied into its blocked layout."""

    def _layout(self, weight: Tensor) -> Tensor:
        return torch.ops.mkldnn._reorder_linear_weight(weight, FEW_ROWS)  # type: ignore[no-any-return]

    def __call__(self, x: Tensor, added: Tensor | None = None) -> Tensor:
        """See `Plain`."""
        pointwise = torch.ops.mkldnn._linear_pointwise
        if added is not None:
            return pointwise.binary(x, added, self.weight, self.bias, "add")  # type: ignore[no-any-return]
        name, kind = ("none", "") if self.activation is None else FUSED[self.activation]
        return pointwise.default(x, self.weight, self.bias, name, [], kind)  # type: ignore[no-any-return]


#: Padding, and stride and dilation, of a 1 x 1 convolution.
_NONE, _EACH = [0, 0], [1, 1]


class Convolved(Plain):
    """oneDNN's 1 x 1 convolution of four pixels, whose channels are the inputs.

    It reads several blocks of weights side by side. oneDNN would rearrange the weights for other
    pixel counts, so rows are padded to multiples of four.
    """

    def _layout(self, weight: Tensor) -> Tensor:
        pixels = [1, weight.size(1), 1, FEW_ROWS]
        return torch.ops.mkldnn._reorder_convolution_weight(  # type: ignore[no-any-return]
            weight[:, :, None, None], _NONE, _EACH, _EACH, 1, pixels
        )

    def _product(self, x: Tensor) -> Tensor:
        filled = F.pad(x, (0, 0, 0, -len(x) % FEW_ROWS))
        fours = [
            torch.ops.mkldnn._convolution_pointwise(
                four.t()[None, :, None], self.weight, self.bias,  # pixels [1, n_in, 1, 4]
                _NONE, _EACH, _EACH, 1, "none", [], "",
            )[0, :, 0].t()
            for four in torch.split(filled, FEW_ROWS)
        ]  # fmt: skip
        return torch.cat(fours)[: len(x)]


class Transposed(Plain):
    """h_1 W_1^T + h_2 W_2^T + ... over column slices of h and W, one slice per thread."""

    def _layout(self, weight: Tensor) -> Tensor:
        n_out, n_in = weight.shape
        most = max(2, torch.get_num_threads())
        n = max(n for n in range(1, most + 1) if n_in % n == 0)
        self._first: Tensor | None = None
        if self.bias is not None:  # one of the sums starts with it
            self._first = self.bias.new_zeros(n, 1, n_out)
            self._first[0, 0] = self.bias
        return weight.t().contiguous().view(n, -1, n_out)

    def _product(self, x: Tensor) -> Tensor:
        sliced = x.view(len(x), len(self.weight), -1).transpose(0, 1)
        if self._first is None:
            return torch.bmm(sliced, self.weight).sum(0)
        return torch.baddbmm(self._first, sliced, self.weight).sum(0)


#: Layouts of a large, tall matrix for one row, few rows and more, by the instructions that PyTorch
#: uses. Other processors use the plain product. docs/decisions/matrix-products.md has the figures.
LAYOUTS: dict[str, tuple[type[Plain], type[Plain], type[Plain]]] = {
    "AVX512": (Transposed, Packed, Packed),
    "AVX2": (Transposed, Convolved, Packed),
}


def layouts_for(
    weight: Tensor, activation: Activation | None = None
) -> tuple[type[Plain], type[Plain], type[Plain]]:
    """Return a matrix's layouts for one row, few rows and more."""
    n_weights, chosen = weight.numel(), LAYOUTS.get(torch.backends.cpu.get_cpu_capability())
    onednn = weight.dtype == torch.float32 and (activation is None or activation in FUSED)
    if weight.device.type != "cpu" or chosen is None or not onednn or n_weights < PACKED_FROM:
        return Plain, Plain, Plain
    one, few, many = (layout if works(layout) else Plain for layout in chosen)  # type: ignore[arg-type]
    # A wide matrix is read in long rows without transposing it.
    tall = weight.size(0) > weight.size(1) and n_weights >= TRANSPOSED_FROM
    return one if tall else Plain, few, many


@cache
def works(layout: type[Plain]) -> bool:
    """Return True if this build of PyTorch computes a layout's product correctly.

    oneDNN's operations are internal to PyTorch's compiler and may change.
    """
    draw = torch.Generator().manual_seed(0)
    x, weight, bias, added = (
        torch.randn(shape, generator=draw) for shape in ((3, 8), (5, 8), (5,), (3, 5))
    )
    plain = F.linear(x, weight, bias)
    try:
        for activation in (None, *FUSED):
            product = layout(weight, bias, activation)
            expected = plain if activation is None else activation(plain)
            if not (
                torch.allclose(product(x), expected, atol=1e-5)
                and torch.allclose(product(x, added), plain + added, atol=1e-5)
            ):
                return False
    except (AttributeError, RuntimeError, TypeError):
        return False
    return True


class Product:
    """x W^T + b, optionally followed by an activation or added to another tensor."""

    def __init__(
        self, weight: Tensor, bias: Tensor | None = None, activation: Activation | None = None, *,
        many: bool = False,
    ) -> None:  # fmt: skip
        """Lay out the weights.

        Args:
            weight: [n_out, n_in].  bias: [n_out] or None.  activation: applied last.
            many: x nearly always has many rows, so other layouts are not kept.
        """
        one, few, more = layouts_for(weight, activation)
        kinds = (more, more, more) if many else (one, few, more)
        products = {kind: kind(weight, bias, activation) for kind in dict.fromkeys(kinds)}
        self._one, self._few, self._more = (products[kind] for kind in kinds)

    def __call__(self, x: Tensor, added: Tensor | None = None) -> Tensor:
        """Map x [R, n_in] to [R, n_out], plus `added` [R, n_out] if given (then no activation)."""
        n_rows = x.size(0)
        product = self._one if n_rows == 1 else self._few if n_rows <= FEW_ROWS else self._more
        return product(x, added)


def parts_of(linear: nn.Linear) -> Parts:
    """Return a layer's weight and bias, detached."""
    bias = linear.bias
    return linear.weight.detach(), None if bias is None else bias.detach()


def stacked(parts: Sequence[Parts], *, many: bool = False) -> Product:
    """Return one product that computes several products of the same input side by side."""
    weight = torch.cat([weight for weight, _ in parts])
    biases = [bias for _, bias in parts if bias is not None]
    return Product(weight, torch.cat(biases) if biases else None, many=many)
