"""The grid of differences between two models' maps: diverging colours, one scale for all cells."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from figures.compare import describe_difference, scale_limit
from figures.labels import show_token
from figures.palette import THEMES, signed_table
from transformer.measures.compare import difference, divergence
from transformer.measures.heads import How, widen
from transformer.types import Floats
from ui.components.grid import MAX_SIDE, Sheet, fold, name_of
from ui.components.packing import attention_look, colours_as_text, deflate

#: The byte for a difference of 0.
_MIDDLE = 128


def difference_sheet(
    one: Floats,
    other: Floats,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    label: str,
    ends: tuple[str, str],
    how: How = "mean",
    dimmed_keys: Sequence[int] = (),
) -> Sheet:
    """Return the sheet of `one - other`, head by head; `mount.attention_grid` shows it.

    Heads that only one side has are left out. The last row and column are differences of combined
    maps, over all heads of each side.

    Args:
        one, other: [L, H, n, m] each, with the same queries and keys.
        label: name of the grid for screen readers.
        ends: names of the ends of the scale, the negative one first.
        how: how the last row and column combine layers and heads.
        dimmed_keys: columns covered in grey.

    Sides above `MAX_SIDE` are shrunk by taking the largest difference of each block, of either
    sign. Raises `ValueError` if the numbers of queries or keys differ.
    """
    left, right = _common(one, other, how)
    apart = difference(left, right)
    limit = scale_limit(apart)
    rows, columns = apart.shape[:2]
    pooled, dimmed = shrink(to_bytes(apart, limit), dimmed_keys)
    bits = divergence(left, right).mean(axis=-1)  # [rows, columns]
    names = [[name_of(r, c, rows, columns, how) for c in range(columns)] for r in range(rows)]
    header = {
        "label": label,
        "row_names": [*(f"Layer {i + 1}" for i in range(rows - 1)), how.capitalize()],
        "column_names": [*(f"Head {i + 1}" for i in range(columns - 1)), how.capitalize()],
        "names": names,
        "said": [
            [
                f"{names[r][c]}: rows differ by {bits[r, c]:.3f} bits on average. "
                f"{describe_difference(apart[r, c], query_tokens, key_tokens)}."
                for c in range(columns)
            ]
            for r in range(rows)
        ],
        "query_tokens": [show_token(token) for token in query_tokens],
        "key_tokens": [show_token(token) for token in key_tokens],
        "queries": pooled.shape[-2],
        "keys": pooled.shape[-1],
        "dimmed": dimmed,
        "how": how,
        "limit": limit,
        "ends": list(ends),
        **attention_look(),
        "colours": {theme: colours_as_text(signed_table(theme)) for theme in THEMES},
    }
    single, combined = fold(pooled, how)
    body = np.frombuffer(deflate(header, single.tobytes(), combined.tobytes()), dtype=np.uint8)
    return Sheet(body, rows, columns)


def to_bytes(apart: Floats, limit: float) -> NDArray[np.uint8]:
    """Return differences as bytes, 0 to 255 for -limit to limit; 128 is 0."""
    share = np.clip(apart.astype(np.float64) / limit, -1, 1)
    result: NDArray[np.uint8] = np.rint(127.5 * (share + 1)).astype(np.uint8)
    return result


def shrink(
    maps: NDArray[np.uint8], dimmed_keys: Sequence[int], side: int = MAX_SIDE
) -> tuple[NDArray[np.uint8], list[int]]:
    """Shrink maps to at most `side` by `side`, keeping the largest difference of each block.

    Dimmed columns are ignored, and a block of dimmed columns only is dimmed.

    Returns: the maps [..., n, m] and the dimmed columns among the m.
    """
    covered = np.zeros(maps.shape[-1], dtype=bool)
    covered[list(dimmed_keys)] = True
    seen = np.where(covered, np.uint8(_MIDDLE), maps) if max(maps.shape[-2:]) > side else maps
    for axis, size in ((-2, maps.shape[-2]), (-1, maps.shape[-1])):
        if size > side:
            starts = np.arange(side) * size // side
            high = np.maximum.reduceat(seen, starts, axis=axis)
            low = np.minimum.reduceat(seen, starts, axis=axis)
            farther = high.astype(np.int16) - _MIDDLE >= _MIDDLE - low.astype(np.int16)
            seen = np.where(farther, high, low)
            if axis == -1:
                covered = np.logical_and.reduceat(covered, starts)
    return seen, np.flatnonzero(covered).tolist()


def _common(one: Floats, other: Floats, how: How) -> tuple[Floats, Floats]:
    """Return both sides widened, with their common heads only."""
    layers, heads = np.minimum(one.shape[:2], other.shape[:2]).tolist()
    rows, columns = [*range(layers), -1], [*range(heads), -1]
    left, right = (widen(maps, how)[rows][:, columns] for maps in (one, other))
    return left, right
