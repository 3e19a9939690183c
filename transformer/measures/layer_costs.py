"""Table 1 (section 4): cost of a layer by its kind, and paths of a signal through layers.

Of costs: counts, fitted exponents, crossings. Of paths: a place is (level, position); level 0 is
the input and each layer adds one level. The recurrent layer adds steps inside its one level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from transformer.types import Reals

LayerKind = Literal[
    "products", "attention", "explicit", "restricted", "recurrent", "lstm", "convolution"
]


@dataclass(frozen=True)
class Shape:
    """Sizes of a layer and its input."""

    n: int  # positions
    d: int  # width of the layer
    kernel: int = 3  # positions that a convolution reads, k in the paper
    # Positions beside its own that restricted self-attention reads, r in the paper.
    window: int = 32


@dataclass(frozen=True)
class LayerCost:
    """One row of table 1, and the layer that stands for it here."""

    name: str  # on screen
    complexity: str  # the paper's terms, as LaTeX without O( )
    sequential: str
    path: str
    in_n: int  # exponents of n and d in `complexity`
    in_d: int
    counted: Callable[[Shape], int]  # multiply-adds of the layer, biases and the softmax left out


def _attention(shape: Shape) -> int:
    return 4 * shape.n * shape.d**2 + 2 * shape.n**2 * shape.d


#: The kinds in the order of table 1; one row of the paper may have several kinds here.
LAYER_COSTS: dict[LayerKind, LayerCost] = {
    "products": LayerCost(
        "Attention, products only", r"n^2 \cdot d", "1", "1", 2, 1,
        lambda shape: 2 * shape.n**2 * shape.d,
    ),
    "attention": LayerCost(
        "Attention, fused", r"n^2 \cdot d", "1", "1", 2, 1, _attention
    ),
    "explicit": LayerCost(
        "Attention, maps kept", r"n^2 \cdot d", "1", "1", 2, 1, _attention
    ),
    "recurrent": LayerCost(
        "Recurrent, tanh", r"n \cdot d^2", "n", "n", 1, 2,
        lambda shape: 2 * shape.n * shape.d**2,
    ),
    "lstm": LayerCost(
        "Recurrent, LSTM", r"n \cdot d^2", "n", "n", 1, 2,
        lambda shape: 8 * shape.n * shape.d**2,
    ),
    "convolution": LayerCost(
        "Convolution", r"k \cdot n \cdot d^2", "1", r"\log_k(n)", 1, 2,
        lambda shape: shape.kernel * shape.n * shape.d**2,
    ),
    "restricted": LayerCost(
        "Attention, restricted", r"r \cdot n \cdot d", "1", "n/r", 1, 1,
        lambda shape: 4 * shape.n * shape.d**2 + 2 * shape.n * (shape.window + 1) * shape.d,
    ),
}  # fmt: skip


def counted(kind: LayerKind, shape: Shape) -> int:
    """Return the multiply-adds of one layer."""
    return LAYER_COSTS[kind].counted(shape)


def counted_crossing(first: LayerKind, second: LayerKind, d: int) -> float:
    """Return the length above which `first`, full attention, has more multiply-adds.

    Not above 0 if it has at every length. Counts are n times a line in n.
    """
    near, far = ((counted(first, Shape(n, d)) - counted(second, Shape(n, d))) / n for n in (1, 2))
    return 1 - near / (far - near)


@dataclass(frozen=True)
class Estimate:
    """A number with a 95% interval of the bootstrap over rounds."""

    value: float
    low: float
    high: float


def fit_exponent(sizes: Reals, times: Reals, draws: int = 1000) -> Estimate:
    """Fit p in time ~ size^p by least squares on logarithms of medians.

    Args:
        sizes: [m], at least two.
        times: [m, rounds]; a round's times belong together and are drawn together.
    """
    x = np.log(sizes) - np.log(sizes).mean()

    def slope(medians: Reals) -> Reals:
        result: Reals = x @ np.log(medians) / (x @ x)
        return result

    drawn = slope(_resampled(times, draws))
    return _estimate(float(slope(np.median(times, axis=1))), drawn)


def crossing(sizes: Reals, first: Reals, second: Reals) -> Estimate:
    """Estimate the size from which `first` is slower than `second` and stays so.

    Args: sizes: [m], rising.  first, second: [m, rounds] times of the same rounds.

    Returns: between two sizes by straight lines on logarithms; 0 if `first` is slower throughout,
        infinite if it is faster at the last size.
    """
    ratio = np.log(np.median(first, axis=1) / np.median(second, axis=1))
    value = _crossing(np.log(sizes), ratio[:, None])[0]
    drawn = np.log(_resampled(first) / _resampled(second))
    return _estimate(float(value), _crossing(np.log(sizes), drawn))


def _crossing(x: Reals, ratio: Reals) -> Reals:
    """Return where each column of `ratio` [m, draws] last turns positive, as sizes [draws]."""
    m = len(x)
    below = ratio <= 0
    last = np.where(below.any(axis=0), m - 1 - np.argmax(below[::-1], axis=0), -1)
    at = np.clip(last, 0, m - 2)
    columns = np.arange(ratio.shape[1])
    left, right = ratio[at, columns], ratio[at + 1, columns]
    rise = np.where(right > left, right - left, 1.0)
    share = np.clip(-left / rise, 0, 1)
    size: Reals = np.exp(x[at] + share * (x[at + 1] - x[at]))
    return np.where(last < 0, 0.0, np.where(last == m - 1, np.inf, size))


def _resampled(times: Reals, draws: int = 1000) -> Reals:
    """Return medians over rounds drawn with replacement, [m, draws]; the same draws every time."""
    rounds = times.shape[1]
    picks = np.random.default_rng(0).integers(rounds, size=(draws, rounds))
    medians: Reals = np.median(times[:, picks], axis=2)
    return medians


def _estimate(value: float, drawn: Reals) -> Estimate:
    # Order statistics rather than interpolation: a size and infinity have no mean.
    low, high = np.quantile(drawn, [0.025, 0.975], method="nearest")
    return Estimate(value, float(low), float(high))


PathKind = Literal["recurrent", "convolution", "dilated", "restricted", "attention"]

#: Level and position.
Place = tuple[int, int]

#: Names on screen, and the paper's bound in LaTeX.
PATHS: dict[PathKind, tuple[str, str]] = {
    "recurrent": ("Recurrent", "n"),
    "convolution": ("Convolution", "n/k"),
    "dilated": ("Dilated convolution", r"\log_k(n)"),
    "restricted": ("Restricted self-attention", "n/r"),
    "attention": ("Self-attention", "1"),
}


def successors(kind: PathKind, node: Place, n: int, size: int) -> Iterator[Place]:
    """Yield the places that read `node` directly, of `n` positions from 0.

    Args:
        size: k of convolutions, odd without dilation, or r of restricted self-attention, even. It
            has no effect on the others. Dilated convolutions look back only, 1, k, k^2, ...
            positions apart from layer to layer.
    """
    level, position = node
    if kind == "recurrent":
        # Into the layer at its own position, then along it in reading order.
        if level == 0:
            yield 1, position
        elif position + 1 < n:
            yield 1, position + 1
        return
    places: range = range(n)
    if kind == "dilated":
        places = range(position, position + size ** (level + 1), size**level)
    elif kind != "attention":
        places = range(position - size // 2, position + size // 2 + 1)
    yield from ((level + 1, place) for place in places if 0 <= place < n)


def path_length(kind: PathKind, distance: int, size: int) -> int:
    """Return the number of layers, or of recurrent steps, that a signal needs for a distance.

    Args: distance: positions to later ones, at least 1.

    Entering the recurrent layer does not count: as in the paper, n positions take at most n steps.
    """
    if kind == "recurrent":
        return distance
    if kind == "attention":
        return 1
    if kind == "dilated":
        layers = 1
        while size**layers <= distance:
            layers += 1
        return layers
    return -(-distance // (size // 2))


def route(kind: PathKind, start: int, end: int, size: int) -> list[Place]:
    """Return the places of a shortest path from position `start` to a later one, both included.

    The recurrent one starts inside its layer.
    """
    if kind == "recurrent":
        return [(1, place) for place in range(start, end + 1)]
    nodes, place = [(0, start)], start
    for level in range(path_length(kind, end - start, size)):
        left = end - place
        if kind == "dilated":
            # Digits of the distance to the base k, from the last one.
            place += left % size ** (level + 1)
        else:
            place += left if kind == "attention" else min(size // 2, left)
        nodes.append((level + 1, place))
    return nodes


def spread(kind: PathKind, start: int, steps: int, n: int, size: int) -> list[set[Place]]:
    """Return the places that hold the signal after 0, 1, ..., `steps` steps."""
    nodes = {(1, start) if kind == "recurrent" else (0, start)}
    fronts = [nodes]
    for _ in range(steps):
        nodes = {place for node in nodes for place in successors(kind, node, n, size)}
        fronts.append(nodes)
    return fronts
