"""Similarity of two models' attention, head by head, on sentences that both read.

Maps are compared between whole words (`measures.words`), since vocabularies cut words into
different pieces, and only where both sides have the same words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from transformer.measures.compare import HeadPair, Reals, assign, similarity
from transformer.measures.words import maps_by_words
from transformer.trace.records import Trace
from transformer.types import ATTENTION_KINDS, AttentionKind

_Shape = tuple[int, int]

#: Words in the same place count as partners if at most this share of a sentence's words differs.
_MOST_CHANGED = 1 / 3


@dataclass(frozen=True, eq=False)
class HeadAgreement:
    """Similarities of the heads of two models on one sentence, for one kind of attention."""

    values: Reals  # [A, B], similarity of every pair; heads are counted through all layers
    rows: int  # number of query words
    shapes: tuple[_Shape, _Shape]  # (layers, heads) of A and of B
    mean: float  # similarity of the two maps averaged over all heads

    @cached_property
    def matched(self) -> float:
        """Mean similarity of heads paired by assignment."""
        return float(np.mean([self.values[pair] for pair in assign(self.values)]))


@dataclass(frozen=True, eq=False)
class Matching:
    """The assignment of A's heads to B's over a number of sentences."""

    # [A, B], mean similarity over all rows of all sentences; heads are counted through all layers.
    values: Reals
    shapes: tuple[_Shape, _Shape]  # (layers, heads) of A and of B
    # The assignment with the greatest sum; the side with more heads keeps some unmatched.
    pairs: tuple[HeadPair, ...]
    sentences: int  # number compared
    left_out: int  # number left out because the two models see different words

    @property
    def mean(self) -> float:
        """Mean similarity of the matched pairs."""
        return float(np.mean([self.values[pair] for pair in self.pairs]))

    @property
    def in_place(self) -> float | None:
        """Mean similarity of heads of the same layer and number; None if there are none."""
        (layers, heads), (other_layers, other_heads) = self.shapes
        both = [
            self.values[layer * heads + head, layer * other_heads + head]
            for layer in range(min(layers, other_layers))
            for head in range(min(heads, other_heads))
        ]
        return float(np.mean(both)) if both else None


def head_agreements(
    left: Trace,
    right: Trace,
    *,
    by_place: bool = False,
    report: Callable[[], None] = lambda: None,
) -> dict[AttentionKind, HeadAgreement]:
    """Return the similarities of all heads, for each kind of attention whose words line up.

    Args:
        by_place: as in `partners`.
        report: called after every layer of the left; may raise to stop.
    """
    found = {}
    for kind in ATTENTION_KINDS:
        if not (left.attention(kind).size and right.attention(kind).size):
            continue
        one, other = maps_by_words(left, kind), maps_by_words(right, kind)
        axes = (one.queries, other.queries), (one.keys, other.keys)
        if not all(partners(*both, by_place=by_place) for both in axes):
            continue
        heads, layers = other.weights.reshape(-1, *other.weights.shape[2:]), []
        for layer in one.weights:
            layers.append(similarity(layer, heads))
            report()
        means = [each.weights.mean(axis=(0, 1), dtype="f8")[None] for each in (one, other)]
        found[kind] = HeadAgreement(
            np.concatenate(layers), len(one.queries),
            (one.weights.shape[:2], other.weights.shape[:2]), float(similarity(*means)[0, 0]),
        )  # fmt: skip
    return found


def match(found: Iterable[HeadAgreement | None]) -> Matching | None:
    """Match heads over sentences, each weighted by its words; None if no sentence compares.

    Args: found: one kind's agreement on each sentence, None for a sentence to leave out.
    """
    every = list(found)
    known = [each for each in every if each is not None]
    if not known:
        return None
    rows = sum(each.rows for each in known)
    values: Reals = np.sum([each.values * each.rows for each in known], axis=0) / rows
    left_out = len(every) - len(known)
    return Matching(values, known[0].shapes, assign(values), len(known), left_out)


def partners(one: Sequence[str], other: Sequence[str], *, by_place: bool = False) -> bool:
    """Return True if two axes have the same labels, or with `by_place` at least two thirds."""
    if tuple(one) == tuple(other):
        return True
    changed = sum(here != there for here, there in zip(one, other, strict=False))
    return by_place and len(one) == len(other) and changed <= _MOST_CHANGED * len(one)


def total_log_prob(trace: Trace | None) -> float:
    """Return log P of all predicted tokens in nats, `</s>` included; NaN if it is unknown."""
    if trace is None or len(trace.log_probs) != len(trace.predicted_tokens):
        return math.nan
    return float(trace.log_probs.sum(dtype="f8"))
