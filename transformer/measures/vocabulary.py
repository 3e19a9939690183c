"""Vocabulary statistics and search, nearest tokens, and principal axes of embeddings."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from transformer.text.marks import MARKS, START, style_of
from transformer.types import Floats, Ints

#: The mark of a word's start or end, or of a piece before its end.
_MARK = re.compile(r"^▁|(?:▁|</w>|@@|￭)$|^￭")

PieceKind = Literal["starts a word", "ends a word", "inside a word", "byte", "special"]


def piece_kinds(
    pieces: Sequence[str], special: Collection[int], byte_ids: Collection[int]
) -> tuple[PieceKind, ...]:
    """Classify pieces as at a word's start or end, whichever is marked, inside, byte or special."""
    style, kinds = style_of(pieces), list[PieceKind]()
    marked: PieceKind = "ends a word" if style in ("word_end", "joined") else "starts a word"
    for index, piece in enumerate(pieces):
        if index in special:
            kinds.append("special")
        elif index in byte_ids:
            kinds.append("byte")
        else:
            # A vocabulary without marks holds whole words; joints mark the pieces inside.
            is_whole = piece == START or style == "plain"
            has_mark = is_whole or MARKS[style](piece) != (style == "joined")
            kinds.append(marked if has_mark else "inside a word")
    return tuple(kinds)


def piece_length(piece: str) -> int:
    """Return the number of characters in a piece, excluding the mark of a word."""
    return len(_MARK.sub("", piece, 1))


def length_counts(pieces: Sequence[str], kinds: Sequence[PieceKind]) -> dict[str, dict[int, int]]:
    """Count pieces with the mark of a word and those inside by length."""
    marked = "ends a word" if "ends a word" in kinds else "starts a word"
    counts: dict[str, dict[int, int]] = {marked: {}, "inside a word": {}}
    for piece, kind in zip(pieces, kinds, strict=True):
        if kind in counts:
            length = piece_length(piece)
            counts[kind][length] = counts[kind].get(length, 0) + 1
    return counts


def share_of_starts(kinds: Sequence[PieceKind]) -> float:
    """Return the share of ordinary pieces that start or end a word, or 0 if there are none."""
    starts, ends, inside = (kinds.count(kind) for kind in get_args(PieceKind)[:3])
    return (starts + ends) / max(starts + ends + inside, 1)


def find(pieces: Sequence[str], query: str) -> tuple[int, ...]:
    """Return ids of pieces that contain a text, ignoring case; a number also matches an id.

    A space or `_` matches `▁`; an empty text matches all. The order is: a matching id, exact
    pieces, pieces that begin with the text, other pieces; ties keep id order.
    """
    if not query:
        return tuple(range(len(pieces)))
    text = query.casefold().replace(" ", START)
    texts = (text, text.replace("_", START))
    number = int(query) if query.isascii() and query.isdigit() and len(query) < 10 else -1
    matches: list[tuple[int, int]] = []
    for index, piece in enumerate(pieces):
        folded = piece.casefold()
        if index == number:
            matches.append((0, index))
        elif any(text in folded for text in texts):
            bare = _MARK.sub("", folded, 1)
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
    """Nearest tokens to one token."""

    ids: Ints  # [n], nearest first
    cosines: Floats  # [n], -1 to 1, decreasing


def neighbours(
    table: Floats, index: int, count: int, leave_out: Collection[int] = ()
) -> Neighbours:
    """Return the rows of `table` [V, d] with the highest cosine to row `index`, excluding it.

    Args: count: maximum number of rows.  leave_out: rows to exclude, as are rows of zeros.

    Raises: `ValueError` if `index` is out of range.
    """
    if not 0 <= index < len(table):
        raise ValueError(f"row {index} is out of range; valid rows are 0 to {len(table) - 1}")
    cosine = cosines(table, table[index])
    cosine[[index, *leave_out]] = np.nan
    order = np.argsort(-cosine, kind="stable")[:count]  # NaN comes last
    order = order[~np.isnan(cosine[order])]
    return Neighbours(order.astype(np.int64), cosine[order].astype(np.float32))


def cosines(table: Floats, vector: Floats) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the cosine of each row of `table` [V, d] with `vector` [d], or NaN for zero rows."""
    wide = vector.astype(np.float64)
    lengths = np.sqrt(np.einsum("vd,vd->v", table, table, dtype=np.float64))
    lengths = lengths * np.linalg.norm(wide)
    nothing = np.full(len(table), np.nan)
    cosine = np.divide(table @ wide, lengths, out=nothing, where=lengths > 0)
    clipped: np.ndarray[tuple[int], np.dtype[np.float64]] = np.clip(cosine, -1, 1)
    return clipped


@dataclass(frozen=True, eq=False)
class Axes:
    """Orthonormal directions of maximum variance."""

    centre: Floats  # [d], mean of the points
    directions: Floats  # [k, d], orthogonal unit vectors, maximum variance first
    shares: Floats  # [k], share of variance along each direction, 0 to 1


def principal_axes(points: Floats, k: int = 2) -> Axes:
    """Return the `k` principal axes of points [n, d], computed exactly.

    The sign of an axis makes its largest entry positive. If the points span fewer than `k`
    dimensions, the remaining directions are orthogonal to them, with share 0.

    Raises: `ValueError` if there are no points, or if `k` exceeds d.
    """
    n, d = points.shape
    if not n or k > d:
        raise ValueError(f"cannot compute {k} axes for {n} points in {d} dimensions")
    wide = points.astype(np.float64)
    centre = wide.mean(axis=0)
    _, strengths, directions = np.linalg.svd(wide - centre, full_matrices=n < k)
    directions = directions[:k]
    signs = np.sign(directions[np.arange(k), np.abs(directions).argmax(axis=1)])
    signs[signs == 0] = 1
    variance = np.zeros(k)
    n_axes = min(k, len(strengths))
    variance[:n_axes] = strengths[:n_axes] ** 2
    total = float((strengths**2).sum())
    return Axes(
        centre=centre.astype(np.float32),
        directions=(directions * signs[:, None]).astype(np.float32),
        shares=(variance / total if total else variance).astype(np.float32),
    )


def project(points: Floats, axes: Axes) -> Floats:
    """Return coordinates along the axes, [n, d] to [n, k]."""
    return ((points - axes.centre) @ axes.directions.T).astype(np.float32)
