"""Frozen NumPy records of one sentence's search.

Shape letters: S source tokens, H heads, K alternatives kept per step, Ld decoder layers, B beam
rows.
All log-probabilities are natural (nats). Indices are 0-based; screens show them 1-based.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar, overload

import numpy as np

from transformer.types import Bools, Floats, Ints

if TYPE_CHECKING:
    from transformer.search.rules import BeamRule
    from transformer.search.sampling import Sampling


@dataclass(frozen=True)
class Translation:
    """One finished translation."""

    text: str  # the detokenised target sentence
    tokens: tuple[str, ...]  # target pieces without `<s>` and `</s>`
    ids: tuple[int, ...]  # their token ids
    score: float  # log P / length penalty, which the search maximises; higher is better
    # Log-probability of each token of `tokens` and, last, of `</s>` (absent when the length limit
    # cut the sentence without one).
    log_probs: tuple[float, ...]
    complete: bool = True  # False when the length limit was reached before `</s>`, or forced it
    unknown: tuple[str, ...] = ()  # source text outside the vocabulary, as typed

    @classmethod
    def of(
        cls, best: Hypothesis, decode: Callable[[Sequence[int]], str], unknown: tuple[str, ...]
    ) -> Translation:
        """Return the translation that a hypothesis spells."""
        n_words = len(best.ids) - (best.complete or best.forced_end)
        ids, tokens = best.ids[:n_words], best.tokens[:n_words]
        return cls(decode(ids), tokens, ids, best.score, best.log_probs, best.complete, unknown)


#: The translation of a blank sentence.
NO_TRANSLATION = Translation(text="", tokens=(), ids=(), score=0.0, log_probs=())


Fate = Literal["kept", "finished", "dropped"]


@dataclass(frozen=True)
class Candidate:
    """One continuation considered at a step."""

    parent: int  # row of the hypothesis it continues, among the rows alive at this step
    token_id: int  # the continuation
    token: str
    log_prob: float  # its log-probability given the parent
    total: float  # log-probability of the whole hypothesis
    score: float  # total / length penalty
    fate: Fate  # "kept" in the beam, "finished" (ended in `</s>` and set aside), or "dropped"
    row: int = -1  # its row at the next step if kept, else -1; also -1 after the last step


@dataclass(frozen=True, eq=False)
class SearchStep:
    """One step of a search: the live rows, their attention, and their continuations."""

    candidates: Sequence[Candidate]  # every row's best continuations, best first
    top_ids: Ints  # [B, K], each row's K most probable next tokens
    top_log_probs: Floats  # [B, K]
    entropy: Floats  # [B], entropy of each row's next-token distribution in nats
    decoder_self: Floats  # [B, Ld, H, t + 1], attention of the newest position onto the prefix
    cross: Floats  # [B, Ld, H, S], its attention onto the source
    allowed: Bools | None = None  # [B, K], which of `top_ids` sampling could choose
    n_allowed: Ints | None = None  # [B], how many tokens sampling could choose from


@dataclass(frozen=True)
class Hypothesis:
    """A finished hypothesis, or one cut at the length limit."""

    ids: tuple[int, ...]  # without `<s>`, with `</s>` if it was reached
    tokens: tuple[str, ...]
    total: float  # log P
    score: float  # total / length penalty
    rows: tuple[int, ...]  # its row at each step; attention of step t is `steps[t].cross[rows[t]]`
    complete: bool  # ended in `</s>` by itself
    log_probs: tuple[float, ...] = ()  # log-probability of each of `ids`
    forced_end: bool = False  # the length limit forced its `</s>`


class PathAttention(NamedTuple):
    """Attention along one path of a search, position by position."""

    cross: Floats  # [Ld, H, n, S], row i predicted token i of the path
    # [Ld, H, n, n], onto the decoder's inputs: `<s>` and the path without its end.
    decoder_self: Floats


def path_attention(steps: Sequence[SearchStep], rows: Sequence[int]) -> PathAttention:
    """Join the attention of a path of at least one step, which has row `rows[t]` at step t."""
    n_layers, n_heads = steps[0].cross.shape[1:3]
    decoder_self = np.zeros((n_layers, n_heads, len(rows), len(rows)), dtype=np.float32)
    for t, row in enumerate(rows):
        decoder_self[:, :, t, : t + 1] = steps[t].decoder_self[row]
    cross = [step.cross[row] for step, row in zip(steps, rows, strict=False)]
    return PathAttention(np.stack(cross, axis=2), decoder_self)


@dataclass(frozen=True, eq=False)
class SearchRecord:
    """The whole search of one sentence."""

    beam_size: int
    alpha: float
    max_length: int
    steps: tuple[SearchStep, ...]  # one per step
    hypotheses: tuple[Hypothesis, ...]  # best score first; the first is the translation
    n_forced: int = 0  # number of steps forced by a prefix
    sampling: Sampling | None = None  # how tokens were sampled; None for beam search
    rule: BeamRule | None = None  # None is `transformer.search.rules.PAPER`


T = TypeVar("T")


class Compact(Sequence[T], Generic[T]):
    """A sequence of dataclass records of one kind, whose fields are numbers and texts."""

    __slots__ = ("_kind", "_rows")

    def __init__(self, kind: type[T], records: Iterable[T]) -> None:
        """Args: kind: the class of each of `records`."""
        names = [column.name for column in fields(kind)]  # type: ignore[arg-type]
        self._kind = kind
        self._rows = tuple(tuple([getattr(record, name) for name in names]) for record in records)

    @property
    def nbytes(self) -> int:
        """Approximate memory in bytes, without strings, which the vocabulary shares."""
        if not self._rows:
            return 0
        numbers = sum(sys.getsizeof(value) for value in self._rows[0] if not isinstance(value, str))
        return len(self._rows) * (sys.getsizeof(self._rows[0]) + numbers)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            return tuple(self._kind(*row) for row in self._rows[index])
        return self._kind(*self._rows[index])

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)
