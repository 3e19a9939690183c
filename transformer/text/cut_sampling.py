"""Subword sampling: by probability (Kudo 2018), or by BPE dropout (Provilkov et al. 2020).

SentencePiece samples too, but from a generator that is salted anew in every process, whatever its
seed: a resumed run would read other pieces, and so would each process of a distributed run.
"""

from __future__ import annotations

import math
import random
import re
import threading
from bisect import bisect
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise

_WORDS = re.compile("▁[^▁]*|[^▁]+")
#: SentencePiece scores an unknown character this much below the lowest piece.
_UNKNOWN_PENALTY = 10.0
#: Maximum number of words with cached segmentations, about 2 kB each.
_MOST_KEPT = 50_000

_GENERATORS = threading.local()

#: The pieces that end at one place of a word: their starts, and the cumulative sums of their
#: conditional probabilities.
_Ends = tuple[list[int], list[float]]


def seed_sampling(seed: int) -> None:
    """Seed the generator of `Tokenizer.sample`, for all tokenizers in this thread."""
    _GENERATORS.draw = random.Random(seed)


def generator() -> random.Random:
    """Return this thread's generator; it is seeded at random by default."""
    if not hasattr(_GENERATORS, "draw"):
        seed_sampling(random.getrandbits(32))
    rng: random.Random = _GENERATORS.draw
    return rng


class Cutter:
    """Random segmentation of normalised text, in which `▁` marks the start of a word."""

    def __init__(
        self,
        ids: Mapping[str, int],
        scores: Mapping[str, float],
        unk_id: int,
        spelled: Sequence[int],
    ) -> None:
        """Take a vocabulary.

        Args:
            ids: of ordinary pieces, without special pieces and bytes.
            scores: of the same pieces: log-probabilities, or minus the ranks of their merges.
            unk_id: stands for a run of characters without pieces.
            spelled: ids of the 256 bytes if such characters are spelled in bytes, else empty.
        """
        self._ids, self._scores = ids, scores
        self._unk_id, self._spelled = unk_id, tuple(spelled)
        self._unknown = min(scores.values(), default=0.0) - _UNKNOWN_PENALTY
        self._longest = max(map(len, ids), default=1)
        self._by_words = not any("▁" in piece[1:] for piece in ids)
        self._kept: dict[tuple[str, float], list[_Ends]] = {}

    def by_probability(self, text: str, alpha: float, draw: random.Random) -> list[int]:
        """Draw a segmentation with probability proportional to P(pieces)^alpha; return ids."""
        return self._numbered(
            piece for word in self._words(text) for piece in self._likely(word, alpha, draw)
        )

    def by_merges(self, text: str, share: float, draw: random.Random) -> list[int]:
        """Segment by merges, skipping this share of them at each step (BPE dropout); return ids."""
        return self._numbered(
            piece for word in self._words(text) for piece in self._merged(word, share, draw)
        )

    def _words(self, text: str) -> list[str]:
        return _WORDS.findall(text) if self._by_words else [text]

    def _numbered(self, pieces: Iterable[str]) -> list[int]:
        ids: list[int] = []
        for piece in pieces:
            index = self._ids.get(piece)
            if index is not None:
                ids.append(index)
            elif self._spelled:
                ids += [self._spelled[byte] for byte in piece.encode()]
            elif ids[-1:] != [self._unk_id]:
                ids.append(self._unk_id)
        return ids

    def _likely(self, word: str, alpha: float, draw: random.Random) -> list[str]:
        ways = self._kept.get((word, alpha))
        if ways is None:
            ways = self._ways(word, alpha)
            if len(self._kept) < _MOST_KEPT:
                self._kept[word, alpha] = ways
        pieces, end = [], len(word)
        while end:
            starts, sums = ways[end - 1]
            # The last sum is 1 up to rounding.
            start = starts[min(bisect(sums, draw.random()), len(starts) - 1)]
            pieces.append(word[start:end])
            end = start
        return pieces[::-1]

    def _ways(self, word: str, alpha: float) -> list[_Ends]:
        """Forward filtering: distributions for sampling backwards, one per end of a piece."""
        ways: list[_Ends] = []
        totals = [0.0]  # log of the sum over all segmentations up to each place
        for end in range(1, len(word) + 1):
            starts, logs = [], []
            for start in range(max(0, end - self._longest), end):
                score = self._scores.get(word[start:end])
                if score is None and start == end - 1:
                    score = self._unknown
                if score is not None:
                    starts.append(start)
                    logs.append(totals[start] + alpha * score)
            most = max(logs)
            total = most + math.log(sum(math.exp(each - most) for each in logs))
            totals.append(total)
            ways.append((starts, list(accumulate(math.exp(each - total) for each in logs))))
        return ways

    def _merged(self, word: str, share: float, draw: random.Random) -> list[str]:
        parts = list(word)
        while True:
            candidates = [
                (score, -place)
                for place, pair in enumerate(pairwise(parts))
                if (score := self._scores.get("".join(pair))) is not None and draw.random() >= share
            ]
            if not candidates:
                return parts
            place = -max(candidates)[1]  # the first of equal scores
            parts[place : place + 2] = ["".join(parts[place : place + 2])]
