"""Segmentations of one text: what each piece stands for, where two of them differ, how probable.

Texts here are normalised ones, with `▁` for spaces, as `Tokenizer.normalize` writes them.
"""

from __future__ import annotations

import codecs
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise

import numpy as np

_START = "\u2581"

#: SentencePiece lets a character without a piece cost this much more than the rarest piece, nats.
_UNKNOWN_PENALTY = 10.0

#: Words longer than this keep the cut without dropout: merging takes time quadratic in it.
_LONGEST_WORD = 200

Span = tuple[int, int]


@dataclass(frozen=True)
class Change:
    """A stretch of text that normalisation replaced; either side may be empty.

    Attributes:
        before, after: the two texts.
        at: where it begins in the text before.
    """

    before: str
    after: str
    at: int


def piece_texts(
    pieces: Sequence[str], ids: Sequence[int], byte_ids: Collection[int]
) -> tuple[str, ...]:
    """The text that each piece stands for; joined they are the normalised text.

    Of a character spelled in bytes, the last byte carries it and the others stand for nothing.
    """
    texts: list[str] = []
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for piece, index in zip(pieces, ids, strict=True):
        if index in byte_ids:
            texts.append(decoder.decode(bytes([int(piece[1:-1], 16)])))
            continue
        if texts:
            texts[-1] += decoder.decode(b"", final=True)  # half a character, as U+FFFD
        decoder.reset()
        texts.append(piece)
    if texts:
        texts[-1] += decoder.decode(b"", final=True)
    return tuple(texts)


def differing(one: Sequence[str], other: Sequence[str]) -> tuple[tuple[Span, Span], ...]:
    """Where two cuts of the same text part: (first, end) of the pieces in each, shortest spans.

    Raises: `ValueError` where the texts are not the same.
    """
    if "".join(one) != "".join(other):
        raise ValueError("the cuts are not of the same text")
    found: list[tuple[Span, Span]] = []
    i = j = 0
    while i < len(one) and j < len(other):
        first = (i, j)
        here, there = len(one[i]), len(other[j])
        i, j = i + 1, j + 1
        while here != there:
            if here < there:
                here, i = here + len(one[i]), i + 1
            else:
                there, j = there + len(other[j]), j + 1
        if (i, j) != (first[0] + 1, first[1] + 1):
            found.append(((first[0], i), (first[1], j)))
    return tuple(found)


def total_log_probability(text: str, log_probs: Mapping[str, float]) -> float:
    """Log-probability, in nats, of a text under a unigram vocabulary: of all its cuts together.

    The forward sum over the lattice of pieces (Kudo 2018, section 3.2). A character without a
    piece of its own can be taken as unknown.

    Args:
        log_probs: of every ordinary piece.
    """
    longest = max(map(len, log_probs), default=0)
    unknown = min(log_probs.values(), default=0.0) - _UNKNOWN_PENALTY
    total = [0.0, *[-math.inf] * len(text)]
    for start in range(len(text)):
        before = total[start]
        known = False
        for end in range(start + 1, min(len(text), start + longest) + 1):
            log_prob = log_probs.get(text[start:end])
            if log_prob is not None:
                known |= end == start + 1
                total[end] = _add(total[end], before + log_prob)
        if not known:
            total[start + 1] = _add(total[start + 1], before + unknown)
    return total[-1]


def merged(
    text: str,
    ranks: Mapping[str, float],
    *,
    dropout: float = 0.0,
    rng: np.random.Generator | None = None,
) -> tuple[str, ...]:
    """A cut by byte-pair merges, some of them left out (Provilkov et al. 2020).

    From single characters on, the two neighbours whose union has the highest rank are joined until
    none can be; each time, every possible merge is passed over with probability `dropout`.

    Args:
        ranks: of every piece; higher is merged earlier.
        rng: where the draws come from; needed with dropout.
    """
    pieces: list[str] = []
    for word in _words(text):
        if dropout and rng is not None and len(word) <= _LONGEST_WORD:
            pieces += _merge_word(word, ranks, dropout, rng)
        else:
            pieces += _merge_word(word, ranks, 0.0, None)
    return tuple(pieces)


def changes(before: str, after: str) -> tuple[Change, ...]:
    """What turned one text into the other, in order."""
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    return tuple(
        Change(before[i:k], after[j:m], i)
        for what, i, k, j, m in matcher.get_opcodes()
        if what != "equal"
    )


def _words(text: str) -> list[str]:
    starts = [i for i, character in enumerate(text) if i == 0 or character == _START]
    return [text[i:k] for i, k in pairwise([*starts, len(text)])]


def _merge_word(
    word: str, ranks: Mapping[str, float], dropout: float, rng: np.random.Generator | None
) -> list[str]:
    pieces = list(word)
    while len(pieces) > 1:
        possible = [
            (ranks[union], -i)
            for i, union in enumerate(map("".join, pairwise(pieces)))
            if union in ranks
        ]
        if rng is not None:
            kept = rng.random(len(possible)) >= dropout
            possible = [each for each, keep in zip(possible, kept, strict=True) if keep]
        if not possible:
            break
        i = -max(possible)[1]
        pieces[i : i + 2] = [pieces[i] + pieces[i + 1]]
    return pieces


def _add(one: float, other: float) -> float:
    """log(exp(one) + exp(other))."""
    high, low = max(one, other), min(one, other)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))
