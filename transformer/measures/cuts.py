"""Text segmentations: piece texts, differences, and probability.

Texts are normalised by `Tokenizer.normalize`, with `▁` for spaces.
"""

import codecs
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise

import numpy as np

_START = "\u2581"

#: SentencePiece's penalty for an unknown character, in nats below the rarest piece.
_UNKNOWN_PENALTY = 10.0

#: Longer words are segmented without dropout, since merging takes quadratic time.
_LONGEST_WORD = 200

Span = tuple[int, int]


@dataclass(frozen=True)
class Replacement:
    """A replacement made by normalisation; either text may be empty."""

    before: str
    after: str
    at: int  # start in the original text


def piece_texts(
    pieces: Sequence[str], ids: Sequence[int], byte_ids: Collection[int]
) -> tuple[str, ...]:
    """Return the text of each piece; joined, they form the normalised text.

    A character spelled in bytes is assigned to its last byte; its other bytes have empty text.
    """
    texts: list[str] = []
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for piece, index in zip(pieces, ids, strict=True):
        if index in byte_ids:
            texts.append(decoder.decode(bytes([int(piece[1:-1], 16)])))
            continue
        if texts:
            texts[-1] += decoder.decode(b"", final=True)  # an incomplete character, as U+FFFD
        decoder.reset()
        texts.append(piece)
    if texts:
        texts[-1] += decoder.decode(b"", final=True)
    return tuple(texts)


def differing(one: Sequence[str], other: Sequence[str]) -> tuple[tuple[Span, Span], ...]:
    """Return minimal (first, end) spans of pieces where two segmentations of a text differ.

    Raises: `ValueError` if the texts differ.
    """
    if "".join(one) != "".join(other):
        raise ValueError("segmentations have different texts")
    differences: list[tuple[Span, Span]] = []
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
            differences.append(((first[0], i), (first[1], j)))
    return tuple(differences)


def total_log_probability(text: str, log_probs: Mapping[str, float]) -> float:
    """Return the log-probability of a text in nats, summed over all unigram segmentations.

    This is the forward sum over the piece lattice (Kudo 2018, section 3.2). A character that is not
    a piece counts as unknown.

    Args: log_probs: log-probability of each ordinary piece.
    """
    longest = max(map(len, log_probs), default=0)
    unknown = min(log_probs.values(), default=0.0) - _UNKNOWN_PENALTY
    total = [0.0, *[-math.inf] * len(text)]
    for start in range(len(text)):
        before = total[start]
        is_piece = False
        for end in range(start + 1, min(len(text), start + longest) + 1):
            log_prob = log_probs.get(text[start:end])
            if log_prob is not None:
                is_piece |= end == start + 1
                total[end] = _add(total[end], before + log_prob)
        if not is_piece:
            total[start + 1] = _add(total[start + 1], before + unknown)
    return total[-1]


def merged(
    text: str, ranks: Mapping[str, float], *, dropout: float = 0.0, rng: np.random.Generator | None
    = None,
) -> tuple[str, ...]:  # fmt: skip
    """Segment by byte-pair merges, with BPE dropout (Provilkov et al. 2020).

    Starting from single characters, the adjacent pair whose union ranks highest is merged until no
    merge is possible; at each step every possible merge is skipped with probability `dropout`.

    Args: ranks: rank of each piece; higher ranks merge first.  rng: required with dropout.
    """
    pieces: list[str] = []
    starts = [i for i, character in enumerate(text) if i == 0 or character == _START]
    for word in (text[i:k] for i, k in pairwise([*starts, len(text)])):
        if dropout and rng is not None and len(word) <= _LONGEST_WORD:
            pieces += _merge_word(word, ranks, dropout, rng)
        else:
            pieces += _merge_word(word, ranks, 0.0, None)
    return tuple(pieces)


def changes(before: str, after: str) -> tuple[Replacement, ...]:
    """Return the replacements that turn `before` into `after`, in order."""
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    return tuple(
        Replacement(before[i:k], after[j:m], i)
        for what, i, k, j, m in matcher.get_opcodes()
        if what != "equal"
    )


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
            chosen = rng.random(len(possible)) >= dropout
            possible = [merge for merge, keep in zip(possible, chosen, strict=True) if keep]
        if not possible:
            break
        i = -max(possible)[1]
        pieces[i : i + 2] = [pieces[i] + pieces[i + 1]]
    return pieces


def _add(one: float, other: float) -> float:
    """Return log(exp(one) + exp(other))."""
    high, low = max(one, other), min(one, other)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))
