"""Byte-pair merges from a codes file, applied to words (Sennrich et al. 2016).

A codes file, as written by subword-nmt and fastBPE, lists pairs of symbols in the order in which
they were learned; the last symbol of a word is marked `</w>`. A word is segmented by merging all
occurrences of the pair listed first, until no listed pair is left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

from transformer.text.tokenizer import TokenizerError

#: The end-of-word mark.
END = "</w>"
#: Longer words are split into characters: merging takes time quadratic in the length.
LONGEST_WORD = 1_000

Pair = tuple[str, str]


class Merges:
    """Ordered merges, applied to one word at a time."""

    def __init__(
        self,
        pairs: Sequence[Pair],
        *,
        end_apart: bool = False,
        known: Collection[str] = (),
        joint: str = "@@",
    ) -> None:
        """Take the pairs in order; of duplicates, the first counts.

        Args:
            end_apart: the end-of-word mark starts as a symbol of its own (codes files without a
                version), not as part of the last character.
            known: if given, merges into pieces outside it are undone. Pieces in it that do not end
                a word carry the suffix `joint`.
        """
        self.pairs, self.end_apart, self.joint = tuple(pairs), end_apart, joint
        self._rank: dict[Pair, int] = {}
        self._parts: dict[str, Pair] = {}
        for pair in self.pairs:
            self._rank.setdefault(pair, len(self._rank))
            self._parts.setdefault("".join(pair), pair)
        self._known = frozenset(known)
        self._cut = lru_cache(maxsize=20_000)(self._apply)

    def cut(self, word: str) -> tuple[str, ...]:
        """Return the pieces of a word, without marks."""
        return self._cut(word)

    def _apply(self, word: str) -> tuple[str, ...]:
        if len(word) < 2 or len(word) > LONGEST_WORD:
            return tuple(word)
        symbols = [*word, END] if self.end_apart else [*word[:-1], word[-1] + END]
        while len(symbols) > 1:
            neighbours = set(pairwise(symbols)) & self._rank.keys()
            if not neighbours:
                break
            symbols = list(_merged(symbols, min(neighbours, key=self._rank.__getitem__)))
        *before, last = symbols
        pieces = (*before, last.removesuffix(END)) if last != END else tuple(before)
        return tuple(self._taken_back(pieces)) if self._known else pieces

    def _taken_back(self, pieces: tuple[str, ...]) -> Iterator[str]:
        """Undo merges until every piece is known, or is a single character."""
        waiting = [
            (piece, index == len(pieces) - 1) for index, piece in reversed([*enumerate(pieces)])
        ]
        while waiting:
            piece, last = waiting.pop()
            parts = self._parts.get(piece + END if last else piece)
            if (piece if last else piece + self.joint) in self._known or parts is None:
                yield piece
                continue
            left, right = parts
            if last:
                right = right.removesuffix(END)
            if right:
                waiting.append((right, last))
                waiting.append((left, False))
            else:  # only the mark was merged
                yield piece


def _merged(symbols: Sequence[str], pair: Pair) -> Iterator[str]:
    at = 0
    while at < len(symbols):
        if at + 1 < len(symbols) and (symbols[at], symbols[at + 1]) == pair:
            yield "".join(pair)
            at += 2
        else:
            yield symbols[at]
            at += 1


def read_codes(data: bytes) -> tuple[list[Pair], bool]:
    """Parse a codes file: its pairs, and whether the end-of-word mark is a separate symbol.

    subword-nmt writes a version line and two columns; fastBPE adds a column of counts.

    Raises: `TokenizerError` naming a line that is in neither format.
    """
    try:
        lines = data.decode().replace("\r\n", "\n").rstrip("\n").split("\n")
    except UnicodeDecodeError:
        raise TokenizerError("not UTF-8 text") from None
    versioned = lines[0].startswith("#version:")
    if versioned and lines[0].split(":")[1].strip() not in ("0.1", "0.2"):
        raise TokenizerError(f"{lines[0]!r} is not version 0.1 or 0.2")
    pairs: list[Pair] = []
    columns = 0
    for number, line in enumerate(lines[1:] if versioned else lines, 2 if versioned else 1):
        parts = line.strip(" ").split(" ")
        columns = columns or len(parts)
        counted = len(parts) == 3 and parts[2].isdigit()
        if len(parts) != columns or not (len(parts) == 2 or counted) or not all(parts):
            raise TokenizerError(f"line {number:,} is not a pair to merge: {line[:60]!r}")
        pairs.append((parts[0], parts[1]))
    return pairs, columns == 2 and not (versioned and lines[0].split(":")[1].strip() == "0.2")
