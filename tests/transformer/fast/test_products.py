"""Every way to compute x W^T + b gives the same, whatever this PyTorch supports."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from transformer.fast import products
from transformer.fast.products import Names, Product, stacked
from transformer.fast.ways import ONEDNN, WAYS, works
from transformer.kernels import relu

ACTIVATIONS = {"none": None, "relu": relu, "silu": F.silu, "gelu": F.gelu, "tanh": torch.tanh}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_product_is_that_of_a_linear_layer(way: str, name: str, dtype: torch.dtype) -> None:
    """Seven outputs make no slices of one size."""
    draw = torch.Generator().manual_seed(0)
    activation = ACTIVATIONS[name]
    for n_out, n_rows, biased in itertools.product((6, 7), (1, 2, 4, 9, 33), (True, False)):
        x, weight, added, bias = (
            torch.randn(shape, generator=draw, dtype=dtype)
            for shape in ((n_rows, 12), (n_out, 12), (n_rows, n_out), (n_out,))
        )
        parts = weight, bias if biased else None
        plain = F.linear(x, *parts)
        activated, summed = Product(*parts, activation), Product(*parts)
        for made in (activated, summed):
            if way not in made.possible:
                assert way in ONEDNN
                assert dtype == torch.float64 or name == "tanh" or not works(way)
                return
            made.settle(Names(way, way, way))
        with torch.inference_mode():
            found = activated(x)
            torch.testing.assert_close(found, plain if activation is None else activation(plain))
            assert found.is_contiguous()
            torch.testing.assert_close(summed(x, added), plain + added)


@pytest.mark.parametrize("way", ["slices", "transposed"])
@pytest.mark.parametrize("threads", [1, 3, 4, 5])
def test_slices_for_any_number_of_threads(
    way: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of matrices that cannot be cut into as many."""
    draw = torch.Generator().manual_seed(threads)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    for n_out, n_in in ((12, 20), (7, 11)):
        weight, x = torch.randn(n_out, n_in, generator=draw), torch.randn(1, n_in, generator=draw)
        bias = torch.randn(n_out, generator=draw)
        made = Product(weight, bias)
        made.settle(Names(way, way, way))
        torch.testing.assert_close(made(x), F.linear(x, weight, bias))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_large_products_are_packed_if_packing_works(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is where nothing was measured."""
    small = Product(torch.randn(7, 12, dtype=dtype))
    monkeypatch.setattr(products, "PACKED_FROM", 7 * 12)
    large = Product(torch.randn(7, 12, dtype=dtype))
    large(torch.zeros(1, 12, dtype=dtype))
    packs = dtype == torch.float32 and works("packed")
    assert large.names == (Names(*["packed"] * 3) if packs else Names("columns", "columns", "rows"))
    monkeypatch.undo()
    assert small.usual() == Names("rows", "rows", "rows")


@given(rows=st.integers(1, 9), seed=st.integers(0, 100))
def test_stacked_products_lie_side_by_side(rows: int, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 6, generator=draw)
    parts = [(torch.randn(n, 6, generator=draw), torch.randn(n, generator=draw)) for n in (3, 1, 4)]
    wanted = torch.cat([F.linear(x, weight, bias) for weight, bias in parts], dim=1)
    torch.testing.assert_close(stacked(parts)(x), wanted)
    bare = stacked([(weight, None) for weight, _ in parts])
    torch.testing.assert_close(bare(x), x @ torch.cat([w for w, _ in parts]).t())
