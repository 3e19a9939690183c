"""Frozen NumPy records of one sentence's search.

Shape letters: S source tokens, H heads, K alternatives per step, Ld decoder layers, B beam rows.
Log-probabilities are in nats. Indices are 0-based; screens show them 1-based.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar, overload

import numpy as np

from transformer.types import Bools, Floats, Ints

if TYPE_CHECKING:
    from transformer.search.rules import BeamRule, Sampling


@dataclass(frozen=True)
class Translation:
    """One finished translation."""

    text: str  # detokenised target sentence
    tokens: tuple[str, ...]  # target pieces without `<s>` and `</s>`
    ids: tuple[int, ...]  # their token ids
    score: float  # log P / length penalty; higher is better
    log_probs: tuple[float, ...]  # of `tokens` and of `</s>`, unless the length limit cut it
    complete: bool = True  # False if the length limit came before `</s>`, or forced it
    unknown: tuple[str, ...] = ()  # source text outside the vocabulary, as typed

    @classmethod
    def of(
        cls, best: "Hypothesis", decode: Callable[[Sequence[int]], str], unknown: tuple[str, ...]
    ) -> "Translation":
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

    parent: int  # row of the hypothesis that it continues
    token_id: int  # the continuation
    token: str
    log_prob: float  # log-probability given the parent
    total: float  # log-probability of the whole hypothesis
    score: float  # total / length penalty
    fate: Fate  # "kept" in the beam, "finished" by `</s>`, or "dropped"
    row: int = -1  # row at the next step, or -1 if there is none


@dataclass(frozen=True, eq=False)
class SearchStep:
    """One step of a search: the live rows, their attention, and their continuations."""

    candidates: Sequence[Candidate]  # continuations of all rows, best first
    top_ids: Ints  # [B, K], most probable next tokens
    top_log_probs: Floats  # [B, K]
    entropy: Floats  # [B], of next-token distributions, in nats
    decoder_self: Floats  # [B, Ld, H, t + 1], attention of the newest position to the prefix
    cross: Floats  # [B, Ld, H, S], its attention to the source
    allowed: Bools | None = None  # [B, K], True for `top_ids` open to sampling
    n_allowed: Ints | None = None  # [B], number of tokens open to sampling


@dataclass(frozen=True)
class Hypothesis:
    """A finished hypothesis, or one cut at the length limit."""

    ids: tuple[int, ...]  # without `<s>`, with `</s>` if it was reached
    tokens: tuple[str, ...]
    total: float  # log P
    score: float  # total / length penalty
    rows: tuple[int, ...]  # row at each step; attention of step t is `steps[t].cross[rows[t]]`
    complete: bool  # ended in `</s>` by itself
    log_probs: tuple[float, ...] = ()  # of `ids`
    forced_end: bool = False  # `</s>` forced by the length limit


class PathAttention(NamedTuple):
    """Attention along one path of a search; row i predicted token i."""

    cross: Floats  # [Ld, H, n, S]
    decoder_self: Floats  # [Ld, H, n, n], to `<s>` and the path without its last token


def path_attention(steps: Sequence[SearchStep], rows: Sequence[int]) -> PathAttention:
    """Join the attention of a path with row `rows[t]` at step t, of at least one step."""
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
    hypotheses: tuple[Hypothesis, ...]  # best first; the first is the translation
    n_forced: int = 0  # number of steps forced by a prefix
    sampling: "Sampling | None" = None  # None for beam search
    rule: "BeamRule | None" = None  # None for `transformer.search.rules.PAPER`


T = TypeVar("T")


class Compact(Sequence[T], Generic[T]):
    """A sequence of records of one dataclass with numbers and texts, in little memory."""

    __slots__ = ("_kind", "_rows")

    def __init__(self, kind: type[T], records: Iterable[T]) -> None:
        names = [column.name for column in fields(kind)]  # type: ignore[arg-type]
        self._kind = kind
        self._rows = tuple(tuple([getattr(record, name) for name in names]) for record in records)

    @property
    def nbytes(self) -> int:
        """Approximate memory in bytes, without the strings of the vocabulary."""
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

    def __repr__(self) -> str:
        return f"<{len(self)} records of {self._kind.__name__}>"
