"""Every layout of W computes the same x W^T + b."""

import itertools

import pytest
import torch
import torch.nn.functional as F

from transformer.fast import products
from transformer.fast.products import (
    LAYOUTS,
    Convolved,
    Packed,
    Plain,
    Product,
    Transposed,
    layouts_for,
    works,
)
from transformer.kernels import linear, relu

ACTIVATIONS = {"none": None, "relu": relu, "silu": F.silu, "gelu": F.gelu}


@pytest.mark.parametrize("layout", [Plain, Packed, Convolved, Transposed])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_a_product_is_that_of_a_linear_layer(layout: type[Plain], name: str) -> None:
    if not works(layout):
        pytest.skip("this PyTorch has no oneDNN")
    draw = torch.Generator().manual_seed(0)
    activation = ACTIVATIONS[name]
    for n_out, n_rows, biased in itertools.product((6, 7), (1, 2, 4, 9, 33), (True, False)):
        x, weight, added, bias = (
            torch.randn(shape, generator=draw)
            for shape in ((n_rows, 12), (n_out, 12), (n_rows, n_out), (n_out,))
        )
        parts = weight, bias if biased else None
        plain = F.linear(x, *parts)
        with torch.inference_mode():
            found = layout(*parts, activation)(x)
            torch.testing.assert_close(found, plain if activation is None else activation(plain))
            assert found.is_contiguous()
            torch.testing.assert_close(layout(*parts)(x, added), plain + added)
            torch.testing.assert_close(linear(x, *parts), plain)


@pytest.mark.parametrize("threads", [1, 3, 4, 5])
def test_slices_for_any_number_of_threads(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of matrices that cannot be cut into as many."""
    draw = torch.Generator().manual_seed(threads)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    for n_out, n_in in ((12, 20), (7, 11)):
        weight, x = torch.randn(n_out, n_in, generator=draw), torch.randn(1, n_in, generator=draw)
        bias = torch.randn(n_out, generator=draw)
        torch.testing.assert_close(Transposed(weight, bias)(x), F.linear(x, weight, bias))


@pytest.mark.parametrize("capability", [*LAYOUTS, "DEFAULT"])
def test_layouts_follow_size_and_machine(capability: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(products, "PACKED_FROM", 50)
    monkeypatch.setattr(products, "TRANSPOSED_FROM", 80)
    monkeypatch.setattr(products, "works", lambda layout: True)
    plain = (Plain, Plain, Plain)
    one, few, many = LAYOUTS.get(capability, plain)
    first = Plain if capability == "DEFAULT" else one
    assert layouts_for(torch.zeros(10, 8)) == (first, few, many)
    assert layouts_for(torch.zeros(8, 10)) == (Plain, few, many)
    assert layouts_for(torch.zeros(9, 8)) == (Plain, few, many)
    assert layouts_for(torch.zeros(7, 7)) == plain
    assert layouts_for(torch.zeros(8, 10).double()) == plain
    assert layouts_for(torch.zeros(8, 10), torch.tanh) == plain
    monkeypatch.setattr(products, "works", lambda layout: False)
    assert layouts_for(torch.zeros(8, 10)) == plain


def test_a_product_takes_the_layout_of_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class Noted(Plain):
        def __call__(self, x: torch.Tensor, added: torch.Tensor | None = None) -> torch.Tensor:
            made.append(type(self).__name__)
            return super().__call__(x, added)

    layouts = tuple(type(name, (Noted,), {}) for name in ("one", "few", "many"))
    monkeypatch.setattr(products, "layouts_for", lambda *_: layouts)
    for many in (False, True):
        product = Product(torch.zeros(3, 2), many=many)
        for rows in (1, 2, 4, 5):
            product(torch.zeros(rows, 2))
    assert made == ["one", "few", "few", "many", *["many"] * 4]
