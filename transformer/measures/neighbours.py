"""The nearest tokens of a token in an embedding."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from transformer.types import Floats, Ints

#: The definition in one sentence, for the screen.
COSINE_RULE = (
    "Cosine similarity: the dot product of two rows of the matrix, divided by their lengths. "
    "1 is the same direction, 0 a right angle; lengths do not matter."
)


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The nearest tokens of one token.

    Attributes:
        ids: [n], nearest first.
        cosines: [n], in -1..1, falling.
    """

    ids: Ints
    cosines: Floats


def neighbours(
    table: Floats, index: int, count: int, leave_out: Collection[int] = ()
) -> Neighbours:
    """Return the rows of `table` [V, d] with the highest cosine to row `index`, excluding it.

    Args:
        count: at most this many.
        leave_out: rows that are never neighbours, as are rows of zeros, which have no direction.

    Raises: `ValueError` if there is no such row.
    """
    if not 0 <= index < len(table):
        raise ValueError(f"there is no row {index} among {len(table)}")
    cosine = cosines(table, table[index])
    cosine[[index, *leave_out]] = np.nan
    order = np.argsort(-cosine, kind="stable")[:count]  # NaN comes last
    order = order[~np.isnan(cosine[order])]
    return Neighbours(order.astype(np.int64), cosine[order].astype(np.float32))


def cosines(table: Floats, vector: Floats) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the cosine of each row of `table` [V, d] with `vector` [d]; NaN for zero rows."""
    wide = vector.astype(np.float64)
    lengths = np.sqrt(np.einsum("vd,vd->v", table, table, dtype=np.float64))
    lengths = lengths * np.linalg.norm(wide)
    nothing = np.full(len(table), np.nan)
    cosine = np.divide(table @ wide, lengths, out=nothing, where=lengths > 0)
    clipped: np.ndarray[tuple[int], np.dtype[np.float64]] = np.clip(cosine, -1, 1)
    return clipped
