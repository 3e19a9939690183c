"""Search settings, and rules for scoring hypotheses and ending a search.

Searches with the same model and beam may differ, since the paper (section 6.1) does not say how to
keep a beam full and when to stop. `PAPER` is this project's choice; `hugging_face` is the rule of
the library's `generate`, for comparison token by token.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from transformer.search.sampling import Sampling
from transformer.types import literals


@dataclass(frozen=True)
class BeamRule:
    """Choices in which implementations differ."""

    plain_length: bool = False  # divide log P by |Y|^alpha instead of Wu et al.'s penalty
    # Replace finished continuations in the same step; otherwise the beam is narrower for one step.
    refill: bool = False
    # Always rank hypotheses cut at the length limit with finished ones; otherwise only if no
    # finished one was the best of its step (an empty translation may finish by falling behind).
    cut_competes: bool = False
    # Length for the test whether a live hypothesis can still win: "longest" is exact, "current" a
    # heuristic that stops earlier; "none" stops when `beam_size` hypotheses have finished.
    bound: Literal["longest", "current", "none"] = "longest"

    def penalty(self, length: int, alpha: float) -> float:
        """Return the divisor of log P for `length` tokens, counting `</s>`.

        The default is lp(Y) = ((5 + |Y|) / 6)^alpha (Wu et al. 2016, eq. 14).
        """
        return float((length if self.plain_length else (5 + length) / 6) ** alpha)


PAPER = BeamRule()


@literals
def hugging_face(early_stopping: bool | Literal["never"] = False) -> BeamRule:
    """Return the rule of `transformers`' `generate`.

    Its `length_penalty` corresponds to `alpha`, and its `max_new_tokens` to `max_length`.
    """
    bound: Literal["longest", "current", "none"] = "none" if early_stopping is True else "current"
    if early_stopping == "never":
        bound = "longest"
    return BeamRule(plain_length=True, refill=True, cut_competes=True, bound=bound)


@dataclass(frozen=True)
class SearchSettings:
    """Search settings, checked by `transformer.search.request`."""

    beam_size: int = 4  # live hypotheses per sentence
    alpha: float = 0.6  # length-penalty exponent; 0 compares log-probabilities
    rule: BeamRule = PAPER
    bos_id: int = 1  # starts the decoder
    eos_id: int = 2  # ends a sentence
    # Ids never generated outside a forced prefix; the other probabilities are not renormalised.
    suppressed: tuple[int, ...] = ()
    # Sequences never generated, of which the last id is refused after the others.
    suppressed_words: tuple[tuple[int, ...], ...] = ()
    excluded: tuple[int, ...] = ()  # ids removed before normalising
    forced_eos: bool = False  # end hypotheses at the length limit in `</s>`, at no cost
    # Number of finished hypotheses that must be certain before a sentence ends, by default
    # `beam_size`. The best hypothesis does not depend on it.
    n_best: int | None = None
    record: bool = False  # record a `SearchStep` for every step
    top_k: int = 10  # recorded alternatives per row and step
    sampling: Sampling | None = None  # sample tokens; needs a beam of one

    @property
    def n_ranked(self) -> int:
        """Number of continuations to rank per sentence; a beam of one is greedy."""
        return self.beam_size * (2 if self.rule.refill and self.beam_size > 1 else 1)

    @cached_property
    def _last_ids(self) -> dict[int, dict[tuple[int, ...], list[int]]]:
        """Last ids of `suppressed_words` by the ids before them, by the number of these."""
        table: dict[int, dict[tuple[int, ...], list[int]]] = {}
        for *before, last in self.suppressed_words:
            table.setdefault(len(before), {}).setdefault(tuple(before), []).append(last)
        return table

    def refused(self, ids: Sequence[int]) -> set[int]:
        """Return the ids that would complete one of `suppressed_words` after generated ids."""
        return {
            last
            for n, words in self._last_ids.items()
            for last in words.get(tuple(ids[len(ids) - n :]), ())
        }

    def penalty(self, length: int) -> float:
        """Return the divisor of log P for a hypothesis of `length` tokens."""
        return self.rule.penalty(length, self.alpha)
