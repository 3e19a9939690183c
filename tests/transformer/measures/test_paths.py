"""Path lengths equal breadth-first search on the graphs of the real layers."""

from __future__ import annotations

from itertools import pairwise
from typing import get_args

import pytest
import torch
from torch import nn

from transformer.experiments.layers import build
from transformer.measures.layer_costs import LayerKind
from transformer.measures.paths import PathKind, path_length, route, spread, successors

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
def test_lengths_are_those_of_a_search(kind: PathKind, size: int) -> None:
    for start in range(N - 1):
        found = steps_to(kind, size, start)
        for end in range(start + 1, N):
            assert path_length(kind, end - start, size) == found[end], (start, end)


@pytest.mark.parametrize(("kind", "size"), SIZED)
def test_a_route_follows_edges_and_is_as_short_as_can_be(kind: PathKind, size: int) -> None:
    for start in range(N - 1):
        for end in range(start + 1, N):
            nodes = route(kind, start, end, size)
            assert nodes[0][1] == start and nodes[-1][1] == end
            assert len(nodes) == 1 + path_length(kind, end - start, size)
            for node, other in pairwise(nodes):
                assert other in set(successors(kind, node, N, size))


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


@pytest.mark.parametrize("layer", ["recurrent", "lstm"])
def test_a_recurrent_layer_connects_earlier_positions_with_later_ones(layer: LayerKind) -> None:
    torch.manual_seed(0)
    module = build(layer, 12, kernel=3, window=2)
    assert reads(module, 12) == {(i, j) for i in range(N) for j in range(i, N)}


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
