"""Comparison of two models or sentences: map similarity and text differences.

An attention row is a distribution over keys. Two rows are compared by their Jensen-Shannon
divergence (Lin 1991) in bits: 0 if they are equal, 1 if they share no key. Map similarity is 1
minus the mean divergence over rows. Both maps must have the same rows and columns, so models with
different vocabularies are compared over whole words (`measures.words`).

Like all attention measures, similarity compares where heads look, not how the values are used.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from transformer.measures.heads import entropy_bits
from transformer.measures.words import group_labels, maps_by_words, word_groups
from transformer.text.marks import unmarked
from transformer.trace.records import Trace
from transformer.types import ATTENTION_KINDS, AttentionKind, Floats, Reals

#: (head of A, head of B), each numbered across layers from 0.
HeadPair = tuple[int, int]

#: Added before a logarithm to keep 0 log 0 at 0; too small to change a positive weight.
_TINY = float(np.finfo(np.float64).tiny)

#: The definition in one sentence, for the screen.
SIMILARITY_RULE = (
    "Similarity is 1 minus the mean Jensen-Shannon divergence of two maps' rows, in bits: 1 for "
    "equal maps, 0 for maps that share no key in any row."
)


def divergence(one: Floats, other: Floats) -> Reals:
    """Return the Jensen-Shannon divergence of rows [..., m] in bits, [...], 0 to 1.

    JSD(p, q) = H((p + q) / 2) - (H(p) + H(q)) / 2. Rows are first divided by their sum. Two rows of
    zeros have divergence 0; a row of zeros and any other row have divergence 1.

    Raises: `ValueError` if key counts differ or a weight is negative or NaN.
    """
    p, q = _distributions(one), _distributions(other)
    if p.shape[-1] != q.shape[-1]:
        raise ValueError(f"rows have {p.shape[-1]} and {q.shape[-1]} keys; expected equal counts")
    bits = entropy_bits((p + q) / 2) - (entropy_bits(p) + entropy_bits(q)) / 2
    empty = (p.sum(axis=-1) == 0) ^ (q.sum(axis=-1) == 0)
    return np.clip(np.where(empty, 1.0, bits), 0.0, 1.0)


def similarity(one: Floats, other: Floats) -> Reals:
    """Return the similarity of each pair of maps, 1 minus their mean row divergence.

    Args: one: [A, n, m].  other: [B, n, m], with the same queries and keys.

    Returns: [A, B], 0 to 1.

    Raises: `ValueError` if map shapes differ or are empty.
    """
    if one.shape[1:] != other.shape[1:] or one.ndim != 3 or 0 in one.shape[1:]:
        raise ValueError(
            f"maps of shapes {one.shape} and {other.shape}; expected [A, n, m] and [B, n, m]"
        )
    p, q = _distributions(one), _distributions(other)
    p_entropy, q_entropy = entropy_bits(p), entropy_bits(q)  # [A, n], [B, n]
    p_empty, q_empty = p.sum(axis=-1) == 0, q.sum(axis=-1) == 0
    similarities = np.empty((len(p), len(q)))
    both, logs = np.empty(p.shape[1:]), np.empty(p.shape[1:])  # for one pair, to stay in cache
    for i, j in np.ndindex(similarities.shape):
        np.multiply(np.add(p[i], q[j], out=both), 0.5, out=both)
        np.log2(np.add(both, _TINY, out=logs), out=logs)
        bits = -np.multiply(both, logs, out=logs).sum(axis=-1) - (p_entropy[i] + q_entropy[j]) / 2
        bits[p_empty[i] ^ q_empty[j]] = 1
        similarities[i, j] = 1 - np.clip(bits, 0, 1).mean()
    return similarities


def assign(values: Reals) -> tuple[HeadPair, ...]:
    """Return the assignment of rows to columns with the largest sum.

    The Hungarian method as shortest augmenting paths over reduced costs (Kuhn 1955, Jonker and
    Volgenant 1987): exact, in time n^2 m for n rows and m >= n columns.

    Args: values: [A, B], finite; if A and B differ, the longer axis keeps unmatched entries.

    Returns: min(A, B) pairs sorted by row.

    Raises: `ValueError` if values are not finite or not a matrix.
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
    """Return the first position where two texts differ or one ends, or None if they are equal."""
    pairs = zip(one, other, strict=False)
    end = None if len(one) == len(other) else min(len(one), len(other))
    return next((at for at, (here, there) in enumerate(pairs) if here != there), end)


def not_shared(one: Sequence[str], other: Sequence[str]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the positions in two texts outside their longest matching blocks."""
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    here, there = set(range(len(one))), set(range(len(other)))
    for block in matcher.get_matching_blocks():
        here -= set(range(block.a, block.a + block.size))
        there -= set(range(block.b, block.b + block.size))
    return tuple(sorted(here)), tuple(sorted(there))


class Word(NamedTuple):
    """A word or single token of a translation; "" where the other text has one more."""

    text: str = ""
    tokens: tuple[int, ...] = ()  # positions among the predicted tokens


@dataclass(frozen=True)
class SideBySide:
    """Two translations aligned word by word."""

    pairs: tuple[tuple[Word, Word], ...]  # the last pair is the end tokens
    unit: str  # "word", or "token" if each translation is a single word, such as letters

    @property
    def parts_at(self) -> int | None:
        """First pair that differs, or None if the translations have the same words."""
        return next((at for at, (a, b) in enumerate(self.pairs) if a.text != b.text), None)


def side_by_side(one: Trace, other: Trace) -> SideBySide:
    """Align the translations in two traces."""
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
        pairs += zip_longest(left[start:][i:j], right[start:][k:n], fillvalue=Word())
    pairs += zip_longest(left_end, right_end, fillvalue=Word())
    return SideBySide(tuple(pairs), "token" if by_token else "word")


def _words(trace: Trace, by_token: bool) -> tuple[list[Word], list[Word]]:
    """Return translated words, and the end token if there is one."""
    n, tokens = trace.n_words, trace.predicted_tokens
    groups = tuple((at,) for at in range(n)) if by_token else word_groups(tokens[:n])
    words = [*map(Word, group_labels(unmarked(tokens), groups), groups)]
    return words, [Word(token, (n + at,)) for at, token in enumerate(tokens[n:])]


def _distributions(weights: Floats) -> Reals:
    wide: Reals = weights.astype(np.float64)
    if wide.size and not wide.min() >= 0:  # NaN fails this too
        raise ValueError("weights contain negative or NaN values; expected 0 or more")
    total = wide.sum(axis=-1, keepdims=True)
    wide /= np.where(total > 0, total, 1)
    return wide


_Shape = tuple[int, int]

#: Maximum share of differing words for words at equal positions to be compared.
_MOST_CHANGED = 1 / 3


@dataclass(frozen=True, eq=False)
class HeadAgreement:
    """Similarity of two models' heads on one sentence, for one kind of attention."""

    values: Reals  # [A, B], similarity of each pair; heads are numbered across layers
    rows: int  # number of query words
    shapes: tuple[_Shape, _Shape]  # (layers, heads) of A and B
    mean: float  # similarity of the two mean maps

    @cached_property
    def matched(self) -> float:
        """Mean similarity of heads paired by assignment."""
        return float(np.mean([self.values[pair] for pair in assign(self.values)]))


@dataclass(frozen=True, eq=False)
class Matching:
    """Assignment of A's heads to B's over several sentences."""

    values: Reals  # [A, B], mean similarity over rows; heads are numbered across layers
    shapes: tuple[_Shape, _Shape]  # (layers, heads) of A and B
    pairs: tuple[HeadPair, ...]  # with the largest sum; the larger side keeps unmatched heads
    sentences: int  # sentences compared
    left_out: int  # sentences in which the models see different words

    @property
    def mean(self) -> float:
        """Mean similarity of the matched pairs."""
        return float(np.mean([self.values[pair] for pair in self.pairs]))

    @property
    def in_place(self) -> float | None:
        """Mean similarity of heads with equal layer and number, or None if there are none."""
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
    """Return head similarities for each kind of attention with matching words.

    Args: by_place: as in `partners`.  report: called after each left layer; may raise to stop.
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
    """Match heads over sentences weighted by word count, or return None if there are none.

    Args: agreements: one kind's agreement on each sentence, or None to leave a sentence out.
    """
    sentences = list(agreements)
    compared = [agreement for agreement in sentences if agreement is not None]
    if not compared:
        return None
    rows = [agreement.rows for agreement in compared]
    values = np.average([agreement.values for agreement in compared], axis=0, weights=rows)
    left_out = len(sentences) - len(compared)
    return Matching(values, compared[0].shapes, assign(values), len(compared), left_out)


def partners(one: Sequence[str], other: Sequence[str], *, by_place: bool = False) -> bool:
    """Return True if two axes have equal labels, or with `by_place` at least two thirds of them."""
    if tuple(one) == tuple(other):
        return True
    changed = sum(here != there for here, there in zip(one, other, strict=False))
    return by_place and len(one) == len(other) and changed <= _MOST_CHANGED * len(one)


def total_log_prob(trace: Trace | None) -> float:
    """Return log P of all predicted tokens in nats, including `</s>`, or NaN if unknown."""
    if trace is None or len(trace.log_probs) != len(trace.predicted_tokens):
        return math.nan
    return float(trace.log_probs.sum(dtype="f8"))
