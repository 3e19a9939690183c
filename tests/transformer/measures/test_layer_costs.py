"""Counts, exponents and crossings of table 1; path lengths equal a search on the real graphs."""

import math
from itertools import pairwise
from typing import get_args

import numpy as np
import pytest
import torch
from torch import nn

from transformer.experiments.complexity import build
from transformer.measures.layer_costs import (
    LAYER_COSTS,
    LayerKind,
    PathKind,
    Shape,
    counted,
    counted_crossing,
    crossing,
    fit_exponent,
    path_length,
    route,
    spread,
    successors,
)
from transformer.types import Reals

SIZES = np.array([64.0, 128.0, 256.0, 512.0, 1024.0])


def powers(exponent: float, factor: float = 1.0, noise: float = 0.05, rounds: int = 9) -> Reals:
    source = np.random.default_rng(int(100 * exponent + rounds))
    clean = factor * SIZES[:, None] ** exponent
    return clean * np.exp(noise * source.normal(size=(len(SIZES), rounds)))


def test_counts_grow_as_table_1_says() -> None:
    for kind, cost in LAYER_COSTS.items():
        # Far out, where one term is left: n much larger than d, or d than all else.
        n, d = 10**9, 8
        doubled = counted(kind, Shape(2 * n, d)) / counted(kind, Shape(n, d))
        assert math.log2(doubled) == pytest.approx(cost.in_n, abs=1e-3), kind
    for d in (24, 512):  # they cross at n = d
        for n in (d - 1, d, d + 1):
            products, recurrent, twice, twice_recurrent = (
                counted(kind, Shape(n, width))
                for width in (d, 2 * d)
                for kind in ("products", "recurrent")
            )
            assert np.sign(products - recurrent) == np.sign(n - d)
            assert twice == 2 * products and twice_recurrent == 4 * recurrent
    more: tuple[tuple[LayerKind, dict[str, int], int], ...] = (
        ("convolution", {"kernel": 5}, 2 * 50 * 20**2),
        ("restricted", {"window": 8}, 2 * (2 * 50 * 20)),
        ("attention", {"kernel": 5, "window": 8}, 0),
    )
    for kind, change, count in more:
        before = {"kernel": 3, "window": 6}
        grown = counted(kind, Shape(50, 20, **{**before, **change}))
        assert grown - counted(kind, Shape(50, 20, **before)) == count


@pytest.mark.parametrize("first", ["products", "attention", "explicit"])
@pytest.mark.parametrize("second", ["recurrent", "lstm", "convolution"])
def test_counts_cross_where_they_are_equal(first: LayerKind, second: LayerKind) -> None:
    for d in (24, 100):
        least = counted_crossing(first, second, d)
        for n in (1, 2, d // 2, d - 1, d, d + 1, 2 * d, 2 * d + 1, 50 * d):
            more = counted(first, Shape(n, d)) - counted(second, Shape(n, d))
            assert np.sign(more) == np.sign(n - least), n


def test_an_exponent_is_found_within_its_interval() -> None:
    for exponent in (0.0, 1.0, 1.7):
        found = fit_exponent(SIZES, powers(exponent))
        assert found.low <= found.value <= found.high
        assert found.value == pytest.approx(exponent, abs=0.05)
        assert 0 < found.high - found.low < 0.2
    exact = fit_exponent(SIZES, powers(2, noise=0))
    assert (exact.value, exact.low, exact.high) == pytest.approx((2, 2, 2))
    times = powers(1, noise=0)
    times[-1, 3] *= 50  # one slow round
    assert fit_exponent(SIZES, times).value == pytest.approx(1)


def test_a_crossing_is_found_between_two_sizes() -> None:
    # n^2 and 300 n are equal at n = 300.
    found = crossing(SIZES, powers(2), powers(1, 300, rounds=9))
    assert found.value == pytest.approx(300, rel=0.1)
    assert found.low <= found.value <= found.high < 512
    exact = crossing(SIZES, powers(2, noise=0), powers(1, 300, noise=0))
    assert exact.value == pytest.approx(300)
    fast, slow = powers(1, noise=0), powers(1, 2, noise=0)
    assert crossing(SIZES, fast, slow).value == math.inf
    assert crossing(SIZES, slow, fast).value == 0
    fast[2] *= 4  # the last change counts, not a bump in the middle
    assert crossing(SIZES, fast, slow).value == math.inf


KINDS: tuple[PathKind, ...] = get_args(PathKind)
SIZED = [
    (kind, size)
    for kind in KINDS
    for size in {"restricted": (2, 6), "convolution": (3, 5), "dilated": (3, 5)}.get(kind, (0,))
]
N = 14


def steps_to(kind: PathKind, size: int, start: int) -> dict[int, int]:
    """Fewest steps from a position to each later one, by breadth-first search."""
    found: dict[int, int] = {}
    for step, nodes in enumerate(spread(kind, start, N, N, size)):
        for _, place in nodes:
            if step:
                found.setdefault(place, step)
    return found


@pytest.mark.parametrize(("kind", "size"), SIZED)
def test_routes_follow_edges_and_are_as_short_as_a_search_finds(kind: PathKind, size: int) -> None:
    edges = {}
    for start in range(N - 1):
        found = steps_to(kind, size, start)
        for end in range(start + 1, N):
            assert path_length(kind, end - start, size) == found[end], (start, end)
            nodes = route(kind, start, end, size)
            assert nodes[0][1] == start and nodes[-1][1] == end
            assert len(nodes) == 1 + found[end]
            for node, other in pairwise(nodes):
                if node not in edges:
                    edges[node] = set(successors(kind, node, N, size))
                assert other in edges[node]


def reads(layer: nn.Module, d: int) -> set[tuple[int, int]]:
    """(input, output) positions of a layer that are connected, from its gradients."""
    x = torch.randn(1, N, d, generator=torch.Generator().manual_seed(1), requires_grad=True)
    y = layer(x)
    found = set()
    for place in range(N):
        (slope,) = torch.autograd.grad(y[0, place].sum(), x, retain_graph=True)
        found |= {(int(source), place) for source in slope[0].abs().sum(-1).nonzero()}
    return found


@pytest.mark.parametrize(
    ("kind", "layer", "size"),
    [("attention", "attention", 0), ("attention", "explicit", 0), ("attention", "products", 0),
     ("restricted", "restricted", 6), ("convolution", "convolution", 5)],
)  # fmt: skip
def test_edges_are_those_of_the_real_layer(kind: PathKind, layer: LayerKind, size: int) -> None:
    torch.manual_seed(0)
    module = build(layer, 12, kernel=size or 3, window=size or 2)
    drawn = {(i, j) for i in range(N) for _, j in successors(kind, (0, i), N, size)}
    assert reads(module, 12) == drawn


@pytest.mark.parametrize("level", [0, 1, 2])
def test_edges_of_dilated_convolutions_are_those_of_pytorch(level: int) -> None:
    kernel, step = 3, 3**level
    torch.manual_seed(0)
    layer = nn.Conv1d(4, 4, kernel, dilation=step)

    class Causal(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            output: torch.Tensor = layer(nn.functional.pad(x.mT, ((kernel - 1) * step, 0))).mT
            return output

    drawn = {(i, j) for i in range(N) for _, j in successors("dilated", (level, i), N, kernel)}
    assert reads(Causal(), 4) == drawn
