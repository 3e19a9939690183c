"""Embedding tables and vocabularies: statistics, search, nearest tokens, principal axes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from transformer.types import Floats, Ints

_START = "\u2581"

PieceKind = Literal["starts a word", "inside a word", "byte", "special"]
PIECE_KINDS: tuple[PieceKind, ...] = ("starts a word", "inside a word", "byte", "special")


def piece_kinds(
    pieces: Sequence[str], special: Collection[int], byte_ids: Collection[int]
) -> tuple[PieceKind, ...]:
    """Classify pieces: `▁` starts a word, other pieces stand inside one."""
    kinds: list[PieceKind] = []
    for index, piece in enumerate(pieces):
        if index in special:
            kinds.append("special")
        elif index in byte_ids:
            kinds.append("byte")
        else:
            kinds.append("starts a word" if piece.startswith(_START) else "inside a word")
    return tuple(kinds)


def piece_length(piece: str) -> int:
    """Return the number of characters of a piece, without a leading `▁`."""
    return len(piece.removeprefix(_START))


def length_counts(pieces: Sequence[str], kinds: Sequence[PieceKind]) -> dict[str, dict[int, int]]:
    """Count pieces by length, separately for word starts and the rest."""
    counts: dict[str, dict[int, int]] = {"starts a word": {}, "inside a word": {}}
    for piece, kind in zip(pieces, kinds, strict=True):
        if kind in counts:
            length = piece_length(piece)
            counts[kind][length] = counts[kind].get(length, 0) + 1
    return counts


def share_of_starts(kinds: Sequence[PieceKind]) -> float:
    """Return the share of ordinary pieces that start a word; 0 if there are none."""
    starts, inside = (kinds.count(kind) for kind in PIECE_KINDS[:2])
    return starts / (starts + inside) if starts + inside else 0.0


def find(pieces: Sequence[str], query: str) -> tuple[int, ...]:
    """Return the ids of the pieces that contain a text, ignoring case; a number also finds its id.

    A space or `_` stands for `▁`; an empty text finds all. Best first: the id itself, the exact
    piece, pieces that begin with the text, then the rest, each in order of ids.
    """
    if not query:
        return tuple(range(len(pieces)))
    text = query.casefold().replace(" ", _START)
    texts = (text, text.replace("_", _START))
    number = int(query) if query.isascii() and query.isdigit() and len(query) < 10 else -1
    matches: list[tuple[int, int]] = []
    for index, piece in enumerate(pieces):
        folded = piece.casefold()
        if index == number:
            matches.append((0, index))
        elif any(text in folded for text in texts):
            bare = folded.removeprefix(_START)
            if folded in texts or bare in texts:
                matches.append((1, index))
            else:
                begins = folded.startswith(texts) or bare.startswith(texts)
                matches.append((2 if begins else 3, index))
    return tuple(index for _, index in sorted(matches))


#: The definition in one sentence, for the screen.
COSINE_RULE = (
    "Cosine similarity: the dot product of two rows of the matrix, divided by their lengths. "
    "1 is the same direction, 0 a right angle; lengths do not matter."
)


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The nearest tokens of one token."""

    ids: Ints  # [n], nearest first
    cosines: Floats  # [n], in -1..1, falling


def neighbours(
    table: Floats, index: int, count: int, leave_out: Collection[int] = ()
) -> Neighbours:
    """Return the rows of `table` [V, d] with the highest cosine to row `index`, excluding it.

    Args:
        count: at most this many.
        leave_out: rows that are never neighbours, as are rows of zeros, which have no direction.

    Raises: `ValueError` if the row does not exist.
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


@dataclass(frozen=True, eq=False)
class Axes:
    """Orthonormal directions of greatest variance."""

    centre: Floats  # [d], the mean of the points
    directions: Floats  # [k, d], unit vectors at right angles, greatest variance first
    shares: Floats  # [k], of the points' variance that lies along each direction, 0..1


def principal_axes(points: Floats, k: int = 2) -> Axes:
    """Return the `k` principal axes of points [n, d], without sampling or iteration.

    An axis may point either way; here its largest entry is positive. If the points span fewer
    than `k` dimensions, the remaining directions are orthogonal to them, with share 0.

    Raises: `ValueError` if there are no points, or `k` is more than d.
    """
    n, d = points.shape
    if not n or k > d:
        raise ValueError(f"{n} points in {d} dimensions have no {k} axes")
    wide = points.astype(np.float64)
    centre = wide.mean(axis=0)
    _, strengths, directions = np.linalg.svd(wide - centre, full_matrices=n < k)
    directions = directions[:k]
    signs = np.sign(directions[np.arange(k), np.abs(directions).argmax(axis=1)])
    signs[signs == 0] = 1
    variance = np.zeros(k)
    known = min(k, len(strengths))
    variance[:known] = strengths[:known] ** 2
    total = float((strengths**2).sum())
    return Axes(
        centre=centre.astype(np.float32),
        directions=(directions * signs[:, None]).astype(np.float32),
        shares=(variance / total if total else variance).astype(np.float32),
    )


def project(points: Floats, axes: Axes) -> Floats:
    """Return coordinates along the axes, (points - centre) V: [n, d] to [n, k]."""
    coordinates = (points - axes.centre) @ axes.directions.T
    return coordinates.astype(np.float32)
