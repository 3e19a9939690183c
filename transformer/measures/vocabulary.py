"""Statistics of a vocabulary of pieces, and search in it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

_START = "\u2581"

PieceKind = Literal["starts a word", "inside a word", "byte", "special"]
PIECE_KINDS: tuple[PieceKind, ...] = ("starts a word", "inside a word", "byte", "special")


def piece_kinds(
    pieces: Sequence[str], special: Collection[int], byte_ids: Collection[int]
) -> tuple[PieceKind, ...]:
    """Classify pieces: those that begin with `▁` start a word, others stand inside one."""
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
    """Count pieces by length, separately for those that start a word and those that do not."""
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


def find(pieces: Sequence[str], wanted: str) -> tuple[int, ...]:
    """Return the ids of the pieces that contain a text, ignoring case; a number also finds its id.

    A space or `_` stands for `▁`; an empty text finds all. Best first: the id itself, the exact
    piece, pieces that begin with the text, then the rest, each in order of ids.
    """
    if not wanted:
        return tuple(range(len(pieces)))
    text = wanted.casefold().replace(" ", _START)
    texts = (text, text.replace("_", _START))
    number = int(wanted) if wanted.isascii() and wanted.isdigit() and len(wanted) < 10 else -1
    found: list[tuple[int, int]] = []
    for index, piece in enumerate(pieces):
        folded = piece.casefold()
        if index == number:
            found.append((0, index))
        elif any(each in folded for each in texts):
            bare = folded.removeprefix(_START)
            if folded in texts or bare in texts:
                found.append((1, index))
            else:
                begins = folded.startswith(texts) or bare.startswith(texts)
                found.append((2 if begins else 3, index))
    return tuple(index for _, index in sorted(found))
