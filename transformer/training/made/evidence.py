"""Which translations of a word sentences and their translations speak for."""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from transformer.training.data import Pair

#: A noun after "a" and before the end of its phrase: "a psychology class" is not one.
_WITH_ARTICLE = re.compile(
    r"\ban? (\w+(?: \w+)?)(?=[.,!?;:]| (?:in|on|of|for|and|with|to|at|is|was|that|who|from|by)\b)"
)


class Evidence:
    """Which target words occur with an English word, in sentences."""

    def __init__(self, pairs: Sequence[Pair], most: int = 400) -> None:
        self.sentences: dict[str, list[int]] = defaultdict(list)
        self.counts: Counter[str] = Counter()
        self.with_article: set[str] = set()
        # The first word's capital says nothing.
        self.targets = [set(tokens_of(target[:1].lower() + target[1:])) for _, target in pairs]
        self.frequencies = Counter(token for tokens in self.targets for token in tokens)
        for index, (english, _) in enumerate(pairs):
            tokens = tokens_of(english.lower())
            couples = [f"{first} {second}" for first, second in itertools.pairwise(tokens)]
            for token in {*tokens, *couples}:
                self.counts[token] += 1
                if len(self.sentences[token]) < most:
                    self.sentences[token].append(index)
            self.with_article.update(_WITH_ARTICLE.findall(english.lower()))

    def near(self, english: str) -> Counter[str]:
        """Count the words of the translations of sentences with an English word."""
        return Counter(
            token for index in self.sentences.get(english, ()) for token in self.targets[index]
        )

    def share(self, english: str, near: Counter[str], target: str) -> float:
        """Return the share of those sentences that have a translation, less that of all."""
        known = len(self.sentences.get(english, ()))
        if not known:
            return 0.0
        head = max(tokens_of(target), key=len, default="")
        stem = head[: max(3, len(head) - 2)]
        found = sum(n for token, n in near.items() if _same_stem(token, stem, head))
        usual = self.frequencies[head] / max(1, len(self.targets))
        return min(1.0, found / known) - usual


def _same_stem(token: str, stem: str, word: str) -> bool:
    return token.startswith(stem) and len(token) <= len(word) + 2


def tokens_of(text: str) -> list[str]:
    """Split a text into its words, without marks and numbers."""
    return re.findall(r"[^\W\d_]+(?:-[^\W\d_]+)*", text)
