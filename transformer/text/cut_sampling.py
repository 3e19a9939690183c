"""Random ways to cut words: by probability (Kudo 2018), or with merges left out (Provilkov 2020).

SentencePiece draws such cuts too, but from a generator that is salted anew in every process,
whatever its seed: a run that was killed and resumed would read other pieces, and so would each of
several processes that train together.
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
#: What SentencePiece takes off the least score for a character that has no piece.
_UNKNOWN_PENALTY = 10.0
#: Words whose ways to be cut are kept, about 2 kB each.
_MOST_KEPT = 50_000

_GENERATORS = threading.local()

#: The pieces that end at one place of a word: where they start, and running sums of how probable
#: each is, given that one of them ends there.
_Ends = tuple[list[int], list[float]]


def seed_sampling(seed: int) -> None:
    """Seed what `Tokenizer.sample` draws from, for this thread and all tokenizers in it."""
    _GENERATORS.draw = random.Random(seed)


def generator() -> random.Random:
    """This thread's generator, at random where it was not seeded."""
    if not hasattr(_GENERATORS, "draw"):
        seed_sampling(random.getrandbits(32))
    found: random.Random = _GENERATORS.draw
    return found


class Cutter:
    """Cuts normalised text at random; in it, `▁` stands where words start."""

    def __init__(
        self,
        ids: Mapping[str, int],
        scores: Mapping[str, float],
        unk_id: int,
        spelled: Sequence[int],
    ) -> None:
        """Take a vocabulary.

        Args:
            ids: of the pieces that text is cut into, without special pieces and bytes.
            scores: of the same pieces: log-probabilities, or minus the ranks of their merges.
            unk_id: of a character without a piece, or several in a row.
            spelled: ids of the 256 bytes, by which such characters are spelled instead; or empty.
        """
        self._ids, self._scores = ids, scores
        self._unk_id, self._spelled = unk_id, tuple(spelled)
        self._unknown = min(scores.values(), default=0.0) - _UNKNOWN_PENALTY
        self._longest = max(map(len, ids), default=1)
        self._by_words = not any("▁" in piece[1:] for piece in ids)
        self._kept: dict[tuple[str, float], list[_Ends]] = {}

    def by_probability(self, text: str, alpha: float, draw: random.Random) -> list[int]:
        """A cut drawn in proportion to its probability, product of its pieces', to the alpha."""
        return self._numbered(
            piece for word in self._words(text) for piece in self._likely(word, alpha, draw)
        )

    def by_merges(self, text: str, share: float, draw: random.Random) -> list[int]:
        """The cut that merges lead to, where at each step this share of them is left out."""
        return self._numbered(
            piece for word in self._words(text) for piece in self._merged(word, share, draw)
        )

    def _words(self, text: str) -> list[str]:
        return _WORDS.findall(text) if self._by_words else [text]

    def _numbered(self, pieces: Iterable[str]) -> list[int]:
        found: list[int] = []
        for piece in pieces:
            index = self._ids.get(piece)
            if index is not None:
                found.append(index)
            elif self._spelled:
                found += [self._spelled[byte] for byte in piece.encode()]
            elif found[-1:] != [self._unk_id]:
                found.append(self._unk_id)
        return found

    def _likely(self, word: str, alpha: float, draw: random.Random) -> list[str]:
        ways = self._kept.get((word, alpha))
        if ways is None:
            ways = self._ways(word, alpha)
            if len(self._kept) < _MOST_KEPT:
                self._kept[word, alpha] = ways
        pieces, end = [], len(word)
        while end:
            starts, sums = ways[end - 1]
            # The last sum is 1 but for rounding.
            start = starts[min(bisect(sums, draw.random()), len(starts) - 1)]
            pieces.append(word[start:end])
            end = start
        return pieces[::-1]

    def _ways(self, word: str, alpha: float) -> list[_Ends]:
        """Filter forwards: what to draw from, going backwards, at each end of a piece."""
        ways: list[_Ends] = []
        totals = [0.0]  # log of the sum over all cuts of what stands before each place
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
            found = [
                (score, -place)
                for place, pair in enumerate(pairwise(parts))
                if (score := self._scores.get("".join(pair))) is not None and draw.random() >= share
            ]
            if not found:
                return parts
            place = -max(found)[1]  # of equal ones the first
            parts[place : place + 2] = ["".join(parts[place : place + 2])]
