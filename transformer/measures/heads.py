"""Combined heads, the largest weights of a query, and the weight on chosen tokens.

All functions take maps [L, H, n, m]: rows are queries, columns are keys, rows sum to 1. None of
them shows what the model does with what it reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from transformer.measures.entropy import entropy_bits
from transformer.types import Floats

#: How several heads become one map. A row of a maximum may sum to more than 1.
How = Literal["mean", "max"]
HOWS: tuple[How, ...] = ("mean", "max")

#: (layer, head), 0-based.
Head = tuple[int, int]

_ROUNDING = 1e-6


def combine(
    maps: Floats, how: How = "mean", layer: int | None = None, head: int | None = None
) -> Floats:
    """Return the map of a single head, or of several combined element by element.

    Args:
        maps: [L, H, n, m].
        layer, head: 0-based; None takes all of them.

    Returns: [n, m], float32; exactly the head's map if layer and head are given.
    """
    layers = maps if layer is None else maps[layer : layer + 1]
    return _reduced(layers if head is None else layers[:, head : head + 1], how, (0, 1))


def combine_chosen(maps: Floats, heads: Sequence[Head], how: How = "mean") -> Floats:
    """Return one map of some heads: [L, H, n, m] to [n, m]. Raises `ValueError` for none."""
    if not heads:
        raise ValueError("no heads chosen; expected at least one")
    return _reduced(np.stack([maps[layer, head] for layer, head in heads]), how, (0,))


def widen(maps: Floats, how: How = "mean") -> Floats:
    """Append combined heads as a last column and combined layers as a last row.

    Shapes: [L, H, n, m] to [L + 1, H + 1, n, m]; the last one combines everything.
    """
    reduce = np.mean if how == "mean" else np.max
    wide = np.concatenate([maps, reduce(maps, axis=1, keepdims=True)], axis=1)
    return np.concatenate([wide, reduce(wide, axis=0, keepdims=True)], axis=0)


def kept_lines(maps: Floats, mass: float) -> NDArray[np.bool_]:
    """Select the fewest keys of every query that together hold a share of its weight.

    Args:
        maps: [..., m], weights of at least 0.
        mass: the share of each row's sum to reach, 0 to 1. 0 keeps none, 1 all weights above 0
            (up to 1e-6, the rounding of float32).

    Returns: [..., m] bool. Of equal weights the earlier key is kept first.
    """
    if not 0 <= mass <= 1:
        raise ValueError(f"mass={mass}; expected 0 to 1")
    order = np.argsort(-maps, axis=-1, kind="stable")
    largest_first = np.take_along_axis(maps, order, axis=-1).astype(np.float64)
    before = np.cumsum(largest_first, axis=-1) - largest_first
    wanted = mass * largest_first.sum(axis=-1, keepdims=True) - _ROUNDING
    keep = np.zeros(maps.shape, dtype=bool)
    np.put_along_axis(keep, order, (before < wanted) & (largest_first > 0), axis=-1)
    return keep


def mass_by_head(maps: Floats, queries: Sequence[int], keys: Sequence[int]) -> NDArray[np.float64]:
    """Return each head's weight on some keys: their sum, averaged over some queries.

    Args:
        maps: [..., n, m].
        queries: rows to average over; empty is all.
        keys: columns to sum.

    Returns: [...], 0 to 1; 0 for no keys.
    """
    rows = maps[..., list(queries), :] if queries else maps
    result: NDArray[np.float64] = (
        rows[..., list(keys)].astype(np.float64).sum(axis=-1).mean(axis=-1)
    )
    return result


def information(maps: Floats) -> NDArray[np.float64]:
    """Return how many bits each row tells about the key, [..., n, m] to [..., n].

    That is the Kullback-Leibler divergence of a row from the mean row of its map. Its mean over the
    rows is the mutual information of query and key: 0 if every query looks alike (all at `</s>`,
    say), and large if each looks at few keys and others look elsewhere.
    """
    rows = maps.astype(np.float64)
    mean = rows.mean(axis=-2, keepdims=True)
    logs = np.log2(mean, out=np.zeros_like(mean), where=mean > 0)
    bits: NDArray[np.float64] = np.maximum(-(rows * logs).sum(axis=-1) - entropy_bits(rows), 0.0)
    return bits


def mutual_information(maps: Floats) -> NDArray[np.float64]:
    """Return the mutual information of query and key in bits, [L, H, n, m] to [L, H].

    The head with the largest is the clearest to look at: its queries tell most about their keys.
    """
    return np.stack([information(layer).mean(axis=-1) for layer in maps])  # bounds the memory


def _reduced(maps: Floats, how: How, axes: tuple[int, ...]) -> Floats:
    if how == "max":
        largest: Floats = maps.max(axis=axes)
        return largest
    mean: Floats = maps.mean(axis=axes, dtype=np.float64).astype(np.float32)
    return mean
