"""Table 1 (section 4): layer costs by kind, and signal paths through layers.

Costs are counts, fitted exponents, and crossings. On paths, a place is (level, position); level 0
is the input and each layer adds one level. A recurrent layer adds steps within its level.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from transformer.types import Reals, literals

LayerKind = Literal[
    "products", "attention", "explicit", "restricted", "recurrent", "lstm", "convolution"
]


@dataclass(frozen=True)
class Shape:
    """Layer and input sizes."""

    n: int  # positions
    d: int  # layer width
    kernel: int = 3  # convolution width, k in the paper
    window: int = 32  # neighbours that restricted self-attention reads, r in the paper


@dataclass(frozen=True)
class LayerCost:
    """One row of table 1 for a layer kind."""

    name: str  # on screen
    complexity: str  # in LaTeX, without O( )
    sequential: str
    path: str
    in_n: int  # exponents of n and d in `complexity`
    in_d: int
    counted: Callable[[Shape], int]  # multiply-adds, excluding biases and softmax


def _attention(shape: Shape) -> int:
    return 4 * shape.n * shape.d**2 + 2 * shape.n**2 * shape.d


#: Layer kinds in the order of table 1; a row of the paper may have several kinds.
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


@literals
def counted(kind: LayerKind, shape: Shape) -> int:
    """Return the number of multiply-adds in one layer."""
    return LAYER_COSTS[kind].counted(shape)


@literals
def counted_crossing(first: LayerKind, second: LayerKind, d: int) -> float:
    """Return the length above which `first`, full attention, needs more multiply-adds.

    It is 0 or less if `first` always needs more. Counts per position are linear in n.
    """
    near, far = ((counted(first, Shape(n, d)) - counted(second, Shape(n, d))) / n for n in (1, 2))
    return 1 - near / (far - near)


@dataclass(frozen=True)
class Estimate:
    """A value with its 95% bootstrap interval over rounds."""

    value: float
    low: float
    high: float


def fit_exponent(sizes: Reals, times: Reals, draws: int = 1000) -> Estimate:
    """Fit p in time ~ size^p by least squares on the logarithms of median times.

    Args: sizes: [m], at least two.  times: [m, rounds]; whole rounds are resampled.
    """
    x = np.log(sizes) - np.log(sizes).mean()

    def slope(medians: Reals) -> Reals:
        result: Reals = x @ np.log(medians) / (x @ x)
        return result

    drawn = slope(_resampled(times, draws))
    return _estimate(float(slope(np.median(times, axis=1))), drawn)


def crossing(sizes: Reals, first: Reals, second: Reals) -> Estimate:
    """Estimate the size above which `first` stays slower than `second`.

    Args: sizes: [m], increasing.  first, second: [m, rounds], times in the same rounds.

    Returns: size interpolated on logarithms; 0 if `first` is slower throughout, infinity if it is
        faster at the last size.
    """
    ratio = np.log(np.median(first, axis=1) / np.median(second, axis=1))
    value = _crossing(np.log(sizes), ratio[:, None])[0]
    drawn = np.log(_resampled(first) / _resampled(second))
    return _estimate(float(value), _crossing(np.log(sizes), drawn))


def _crossing(x: Reals, ratio: Reals) -> Reals:
    """Return sizes [draws] where each column of `ratio` [m, draws] last turns positive."""
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
    """Return medians [m, draws] over rounds drawn with replacement, with a fixed seed."""
    rounds = times.shape[1]
    picks = np.random.default_rng(0).integers(rounds, size=(draws, rounds))
    medians: Reals = np.median(times[:, picks], axis=2)
    return medians


def _estimate(value: float, drawn: Reals) -> Estimate:
    # Nearest order statistic, since interpolation fails for infinite sizes.
    low, high = np.quantile(drawn, [0.025, 0.975], method="nearest")
    return Estimate(value, float(low), float(high))


PathKind = Literal["recurrent", "convolution", "dilated", "restricted", "attention"]

#: (level, position).
Place = tuple[int, int]

#: Name on screen, and the paper's bound in LaTeX.
PATHS: dict[PathKind, tuple[str, str]] = {
    "recurrent": ("Recurrent", "n"),
    "convolution": ("Convolution", "n/k"),
    "dilated": ("Dilated convolution", r"\log_k(n)"),
    "restricted": ("Restricted self-attention", "n/r"),
    "attention": ("Self-attention", "1"),
}


@literals
def successors(kind: PathKind, node: Place, n: int, size: int) -> Iterator[Place]:
    """Yield places that read `node` directly, with positions 0 to n - 1.

    Args:
        size: k of convolutions, odd unless dilated, or r of restricted self-attention, even; other
            kinds ignore it. Dilated convolutions look back only, with spacing 1, k, k^2, ... from
            layer to layer.
    """
    level, position = node
    if kind == "recurrent":
        # Enter the layer at the same position, then move along it in reading order.
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


@literals
def path_length(kind: PathKind, distance: int, size: int) -> int:
    """Return the layers, or recurrent steps, that a signal needs to cover a distance.

    Args: distance: positions forward, at least 1.

    Entering the recurrent layer is not counted: as in the paper, n positions take at most n steps.
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


@literals
def route(kind: PathKind, start: int, end: int, size: int) -> list[Place]:
    """Return the places on a shortest path from position `start` to a later position `end`.

    A recurrent path starts inside its layer.
    """
    if kind == "recurrent":
        return [(1, place) for place in range(start, end + 1)]
    nodes, place = [(0, start)], start
    for level in range(path_length(kind, end - start, size)):
        left = end - place
        if kind == "dilated":
            # Base-k digits of the distance, least significant first.
            place += left % size ** (level + 1)
        else:
            place += left if kind == "attention" else min(size // 2, left)
        nodes.append((level + 1, place))
    return nodes


@literals
def spread(kind: PathKind, start: int, steps: int, n: int, size: int) -> list[set[Place]]:
    """Return the places that the signal reaches after 0, 1, ..., `steps` steps."""
    nodes = {(1, start) if kind == "recurrent" else (0, start)}
    fronts = [nodes]
    for _ in range(steps):
        nodes = {place for node in nodes for place in successors(kind, node, n, size)}
        fronts.append(nodes)
    return fronts
