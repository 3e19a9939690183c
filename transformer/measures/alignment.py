"""Word alignment read from attention, and its error against links drawn by people.

A target word is linked to the source word that its row looks at most. Attention is over pieces:
weights on the pieces of a source word are summed, rows of the pieces of a target word averaged
(Zenkel et al. 2019). Of a decoder's rows, "reading" is the one whose input is the word, and
"predicting" the one before it, whose output is the word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from transformer.types import Floats

Row = Literal["reading", "predicting"]

#: A link: (source word, target word), from 0.
Link = tuple[int, int]


@dataclass(frozen=True)
class Gold:
    """Links of one sentence pair drawn by people (Och and Ney 2003).

    Attributes:
        sure: links that everyone agrees on.
        possible: links that are allowed; the sure ones are among them.
    """

    sure: frozenset[Link]
    possible: frozenset[Link]


def word_numbers(tokens: Sequence[str], special: Iterable[int] = ()) -> list[int | None]:
    """Return the number of each piece's word, from 0; None for special tokens."""
    apart, word = set(special), -1
    numbers: list[int | None] = []
    for place, token in enumerate(tokens):
        if place in apart:
            numbers.append(None)
            continue
        word += token.startswith("▁") or word < 0
        numbers.append(word)
    return numbers


def by_words(weights: Floats, rows: Sequence[int | None], columns: Sequence[int | None]) -> Floats:
    """Return a map over pieces [..., n, m] as one over words [..., N, M].

    Args: rows, columns: the word of each piece (`word_numbers`).
    """
    n_rows, n_columns = (
        1 + max((each for each in numbers if each is not None), default=-1)
        for numbers in (rows, columns)
    )
    lines = np.zeros((n_rows, len(rows)), np.float32)
    for place, word in enumerate(rows):
        if word is not None:
            lines[word, place] = 1
    averages = lines / np.maximum(lines.sum(axis=1, keepdims=True), 1)
    sums = np.zeros((len(columns), n_columns), np.float32)
    for place, word in enumerate(columns):
        if word is not None:
            sums[place, word] = 1
    found: Floats = averages.astype(np.float32) @ weights @ sums
    return found


def links(words: Floats) -> frozenset[Link]:
    """Link every target word to the source word with the largest weight.

    Args: words: [target words, source words].
    """
    return frozenset((int(row.argmax()), target) for target, row in enumerate(words) if len(row))


def alignment_error(found: Iterable[frozenset[Link]], gold: Iterable[Gold]) -> float:
    """Return AER = 1 - (|A and S| + |A and P|) / (|A| + |S|) over all sentences (Och and Ney 2003).

    0 is the best, 1 the worst; NaN without any link.
    """
    right = total = 0
    for each, known in zip(found, gold, strict=True):
        right += len(each & known.sure) + len(each & known.possible)
        total += len(each) + len(known.sure)
    return 1 - right / total if total else float("nan")
