"""Word alignment read from attention, and its error against links drawn by people.

A target word is linked to the source word that its row looks at most (`measures.words` makes maps
over words; Zenkel et al. 2019). Of a decoder's rows, "reading" is the one whose input is the word,
and "predicting" the one before it, whose output is the word.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from transformer.trace.records import Trace
from transformer.types import Floats

Row = Literal["reading", "predicting"]

#: A link: (source word, target word), from 0.
Link = tuple[int, int]


@dataclass(frozen=True)
class Gold:
    """Links of one sentence pair drawn by people (Och and Ney 2003)."""

    sure: frozenset[Link]  # links that everyone agrees on
    possible: frozenset[Link]  # links that are allowed; the sure ones are among them


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


@dataclass(frozen=True, eq=False)
class SourceBlock:
    """The rows of a translation over the columns of its source, in one text."""

    src_tokens: tuple[str, ...]  # [S], ends with `</s>`
    tgt_tokens: tuple[str, ...]  # [T], starts with `<s>`
    weights: Floats  # [L, H, T, S], a part of `decoder_self`; rows sum to at most 1

    @property
    def share(self) -> Floats:
        """Weight of each row on the source, [L, H, T]."""
        summed: Floats = self.weights.sum(axis=-1)
        return summed


def source_block(trace: Trace) -> SourceBlock:
    """Cut the map of a translator of one stack into source and translation, which starts at `<s>`.

    Raises: `ValueError` for a text without it.
    """
    bos = "<s>"
    if bos not in trace.tgt_tokens[1:]:
        raise ValueError("this text holds no source: no token stands between two parts")
    start = trace.tgt_tokens.index(bos)
    return SourceBlock(
        trace.tgt_tokens[:start],
        trace.tgt_tokens[start:],
        trace.decoder_self[:, :, start:, :start],
    )
