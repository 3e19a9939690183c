"""Every way to compute x W^T + b gives the same, whatever this PyTorch supports."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from transformer.fast import products
from transformer.fast.products import Product, stacked

ACTIVATIONS = {"none": None, "relu": F.relu, "silu": F.silu, "gelu": F.gelu, "tanh": torch.tanh}


@pytest.fixture(params=["as it comes", "packed", "without oneDNN"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A way to compute products; here every matrix counts as large."""
    if request.param != "as it comes":
        monkeypatch.setattr(products, "PACKED_FROM", 1)
    if request.param == "without oneDNN":
        monkeypatch.setattr(products, "_has_onednn", lambda: False)
    return request.param


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n_rows", [1, 2, 4, 5, 33])
def test_a_product_is_that_of_a_linear_layer(
    way: str, name: str, dtype: torch.dtype, n_rows: int
) -> None:
    draw = torch.Generator().manual_seed(n_rows)
    x, weight, added = (
        torch.randn(shape, generator=draw, dtype=dtype)
        for shape in ((n_rows, 12), (7, 12), (n_rows, 7))
    )
    for bias in (torch.randn(7, generator=draw, dtype=dtype), None):
        plain = F.linear(x, weight, bias)
        activation = ACTIVATIONS[name]
        wanted = plain if activation is None else activation(plain)
        with torch.inference_mode():
            torch.testing.assert_close(Product(weight, bias, activation)(x), wanted)
            torch.testing.assert_close(Product(weight, bias)(x, added), plain + added)


def test_this_machine_takes_the_way_it_can(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large products in float32 are packed if packing works."""
    made = Product(torch.randn(7, 12))
    packs = way == "packed" and products._has_onednn()
    assert (made.weight.device.type == "meta") == packs


@given(rows=st.integers(1, 9), seed=st.integers(0, 100))
def test_stacked_products_lie_side_by_side(rows: int, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 6, generator=draw)
    parts = [(torch.randn(n, 6, generator=draw), torch.randn(n, generator=draw)) for n in (3, 1, 4)]
    wanted = torch.cat([F.linear(x, weight, bias) for weight, bias in parts], dim=1)
    torch.testing.assert_close(stacked(parts)(x), wanted)
    bare = stacked([(weight, None) for weight, _ in parts])
    torch.testing.assert_close(bare(x), x @ torch.cat([w for w, _ in parts]).t())
