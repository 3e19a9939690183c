"""Compare two models or two sentences: similarity of maps, and differences of texts.

A row of attention is a distribution over keys. Two of them are compared by the Jensen-Shannon
divergence (Lin 1991) in bits: 0 where they are equal, 1 where they share no key. The similarity of
two maps is 1 minus the mean divergence of their rows; rows and columns must mean the same in
both, so models with different vocabularies are compared over whole words (`measures.words`).

Like all measures of attention, this shows where two heads look, not what they do with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from transformer.measures.entropy import entropy_bits
from transformer.measures.words import group_labels, maps_by_words, word_groups
from transformer.trace.records import Trace
from transformer.types import ATTENTION_KINDS, AttentionKind, Floats, Reals

#: (head of the first, head of the second), both numbered through all layers from 0.
HeadPair = tuple[int, int]

#: Added before a logarithm: keeps 0 log 0 at 0, and changes no weight above it.
_TINY = float(np.finfo(np.float64).tiny)

#: The definition in one sentence, for the screen.
SIMILARITY_RULE = (
    "Similarity is 1 minus the mean Jensen-Shannon divergence of two maps' rows, in bits: 1 for "
    "equal maps, 0 for maps that share no key in any row."
)


def divergence(one: Floats, other: Floats) -> Reals:
    """Jensen-Shannon divergence of rows, in bits, 0 to 1. Shapes: [..., m] twice, to [...].

    JSD(p, q) = H((p + q) / 2) - (H(p) + H(q)) / 2. Rows are first divided by their sum; a row of
    zeros is at distance 1 from all other rows and equal to another row of zeros.

    Raises: `ValueError` if the numbers of keys differ or a weight is negative or NaN.
    """
    p, q = _distributions(one), _distributions(other)
    if p.shape[-1] != q.shape[-1]:
        raise ValueError(f"rows over {p.shape[-1]} and {q.shape[-1]} keys cannot be compared")
    bits = entropy_bits((p + q) / 2) - (entropy_bits(p) + entropy_bits(q)) / 2
    empty = (p.sum(axis=-1) == 0) ^ (q.sum(axis=-1) == 0)
    return np.clip(np.where(empty, 1.0, bits), 0.0, 1.0)


def similarity(one: Floats, other: Floats) -> Reals:
    """Return the similarity of every pair of maps: 1 - mean divergence of rows.

    Args: one: [A, n, m].  other: [B, n, m]; rows and columns mean the same in both.

    Returns: [A, B], 0 to 1.

    Raises: `ValueError` if the maps differ in shape or have no row.
    """
    if one.shape[1:] != other.shape[1:] or one.ndim != 3 or 0 in one.shape[1:]:
        raise ValueError(
            f"maps of shapes {one.shape} and {other.shape}; expected [A, n, m] and [B, n, m]"
        )
    p, q = _distributions(one), _distributions(other)
    p_entropy, q_entropy = entropy_bits(p), entropy_bits(q)  # [A, n], [B, n]
    p_empty, q_empty = p.sum(axis=-1) == 0, q.sum(axis=-1) == 0
    similarities = np.empty((len(p), len(q)))
    both, logs = np.empty(p.shape[1:]), np.empty(p.shape[1:])  # of one pair, to stay in the cache
    for i, j in np.ndindex(similarities.shape):
        np.multiply(np.add(p[i], q[j], out=both), 0.5, out=both)
        np.log2(np.add(both, _TINY, out=logs), out=logs)
        bits = -np.multiply(both, logs, out=logs).sum(axis=-1) - (p_entropy[i] + q_entropy[j]) / 2
        bits[p_empty[i] ^ q_empty[j]] = 1
        similarities[i, j] = 1 - np.clip(bits, 0, 1).mean()
    return similarities


def assign(values: Reals) -> tuple[HeadPair, ...]:
    """Return the assignment of rows to columns with the greatest sum.

    The Hungarian method as shortest augmenting paths over reduced costs (Kuhn 1955, Jonker and
    Volgenant 1987): exact, in time n^2 m for n rows and m >= n columns.

    Args: values: [A, B], finite; if A and B differ, some of the longer side stay unmatched.

    Returns: min(A, B) pairs in the order of rows.

    Raises: `ValueError` for values that are not finite, or not a matrix.
    """
    if values.ndim != 2 or not np.isfinite(values).all():
        raise ValueError(f"values of shape {values.shape}; expected a matrix of finite numbers")
    if values.shape[0] > values.shape[1]:
        return tuple(sorted((row, column) for column, row in assign(values.T)))
    costs = -values.astype(np.float64)
    n, m = costs.shape
    row_prices, column_prices = np.zeros(n), np.zeros(m)
    owner = np.full(m, -1)  # the row matched to a column
    for start in range(n):
        reached = np.full(m, np.inf)  # shortest path to each column from the unmatched row
        before = np.full(m, -1)  # the previous column on that path, or -1
        settled = np.zeros(m, dtype=bool)
        row, column, length = start, -1, 0.0
        while True:
            ways = length + costs[row] - row_prices[row] - column_prices
            shorter = ~settled & (ways < reached)
            reached[shorter], before[shorter] = ways[shorter], column
            column = int(np.argmin(np.where(settled, np.inf, reached)))
            length = float(reached[column])
            if owner[column] < 0:
                break
            settled[column] = True
            row = int(owner[column])
        # Update prices: reduced costs stay 0 for matched pairs and never become negative.
        row_prices[start] += length
        gained = length - reached[settled]
        row_prices[owner[settled]] += gained
        column_prices[settled] -= gained
        while column >= 0:  # augment: give each column on the path to the row before it
            previous = int(before[column])
            owner[column] = start if previous < 0 else owner[previous]
            column = previous
    return tuple(sorted((int(row), column) for column, row in enumerate(owner) if row >= 0))


def parting(one: Sequence[object], other: Sequence[object]) -> int | None:
    """Return the first position at which two texts differ (or one ends); None if equal."""
    pairs = zip(one, other, strict=False)
    position = next((at for at, (here, there) in enumerate(pairs) if here != there), None)
    if position is None and len(one) != len(other):
        return min(len(one), len(other))
    return position


def not_shared(one: Sequence[str], other: Sequence[str]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the positions in each of two texts outside their longest matching blocks."""
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    here, there = set(range(len(one))), set(range(len(other)))
    for block in matcher.get_matching_blocks():
        here -= set(range(block.a, block.a + block.size))
        there -= set(range(block.b, block.b + block.size))
    return tuple(sorted(here)), tuple(sorted(there))


class Word(NamedTuple):
    """A word of a translation, or a single token; "" where a text has none."""

    text: str = ""
    tokens: tuple[int, ...] = ()  # positions among the predicted tokens


@dataclass(frozen=True)
class SideBySide:
    """Two translations word by word: equal words side by side, others with those in their place."""

    pairs: tuple[tuple[Word, Word], ...]  # the end tokens are the last one
    unit: str  # "word", or "token" for strings of letters, which are one word each

    @property
    def parts_at(self) -> int | None:
        """The first pair that differs; None if the translations have the same words."""
        return next((at for at, (a, b) in enumerate(self.pairs) if a.text != b.text), None)


def side_by_side(one: Trace, other: Trace) -> SideBySide:
    """Align the translations of two traces."""
    by_token = all(
        len(word_groups(trace.predicted_tokens[: trace.n_words])) <= 1 for trace in (one, other)
    )
    (left, left_end), (right, right_end) = (_words(trace, by_token) for trace in (one, other))
    here, there = ([word.text for word in words] for words in (left, right))
    start = parting(here, there)
    start = len(left) if start is None else start
    pairs = [*zip(left[:start], right[:start], strict=True)]
    rest = SequenceMatcher(None, here[start:], there[start:], autojunk=False)
    for _, i, j, k, n in rest.get_opcodes():
        some = left[start:][i:j], right[start:][k:n]
        pairs += zip_longest(*some, fillvalue=Word())
    pairs += zip_longest(left_end, right_end, fillvalue=Word())
    return SideBySide(tuple(pairs), "token" if by_token else "word")


def _words(trace: Trace, by_token: bool) -> tuple[list[Word], list[Word]]:
    """Return the words of a translation, and its end token if it has one."""
    n, tokens = trace.n_words, trace.predicted_tokens
    groups = tuple((at,) for at in range(n)) if by_token else word_groups(tokens[:n])
    words = [*map(Word, group_labels(tokens, groups), groups)]
    return words, [Word(token, (n + at,)) for at, token in enumerate(tokens[n:])]


def _distributions(weights: Floats) -> Reals:
    """Convert to float64 and normalise rows; rows of zeros stay."""
    wide: Reals = weights.astype(np.float64)
    if wide.size and not wide.min() >= 0:  # NaN fails this too
        raise ValueError("weights are negative or not numbers")
    total = wide.sum(axis=-1, keepdims=True)
    wide /= np.where(total > 0, total, 1)
    return wide


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

    # [A, B], mean similarity over all rows of all sentences; heads are numbered across layers.
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
    left: Trace, right: Trace, *, by_place: bool = False, report: Callable[[], None] = lambda: None,
) -> dict[AttentionKind, HeadAgreement]:  # fmt: skip
    """Return the similarities of all heads, for each kind of attention whose words line up.

    Args:
        by_place: as in `partners`.
        report: called after every layer of the left; may raise to stop.
    """
    agreements = {}
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
        means = [maps.weights.mean(axis=(0, 1), dtype="f8")[None] for maps in (one, other)]
        agreements[kind] = HeadAgreement(
            np.concatenate(layers), len(one.queries),
            (one.weights.shape[:2], other.weights.shape[:2]), float(similarity(*means)[0, 0]),
        )  # fmt: skip
    return agreements


def match(agreements: Iterable[HeadAgreement | None]) -> Matching | None:
    """Match heads over sentences, each weighted by its words; None if no sentence compares.

    Args: agreements: one kind's agreement on each sentence; None leaves a sentence out.
    """
    every = list(agreements)
    known = [agreement for agreement in every if agreement is not None]
    if not known:
        return None
    rows = sum(agreement.rows for agreement in known)
    weighted = [agreement.values * agreement.rows for agreement in known]
    values: Reals = np.sum(weighted, axis=0) / rows
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
