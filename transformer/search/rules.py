"""Settings of a search, and the rule by which hypotheses are scored and a search ends.

Two searches over one model with the same beam may find different translations, since the paper
(section 6.1) does not say how a beam is kept full and when it may stop. `PAPER` is this project's
choice; `hugging_face` is that of the library's `generate`, for comparison token by token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from transformer.search.sampling import Sampling


@dataclass(frozen=True)
class BeamRule:
    """The choices in which implementations differ."""

    plain_length: bool = False  # divide log P by |Y|^alpha, instead of Wu et al.'s penalty
    # Replace continuations that end by the next best ones at once; otherwise the beam is narrower
    # until the next step.
    refill: bool = False
    # A hypothesis cut at the longest length is always ranked with finished ones; otherwise only
    # if none of them was the best of its step, such as an empty one of little probability.
    cut_competes: bool = False
    # The length at which a live hypothesis is scored to decide whether it can still win. "longest"
    # is exact, "current" a heuristic that stops earlier; with "none" a sentence ends as soon as
    # `beam_size` hypotheses have finished.
    bound: Literal["longest", "current", "none"] = "longest"

    def penalty(self, length: int, alpha: float) -> float:
        """Return the divisor of log P for `length` tokens, `</s>` included."""
        return float(length**alpha) if self.plain_length else length_penalty(length, alpha)

    def n_ranked(self, beam_size: int) -> int:
        """Return how many continuations of a sentence are considered; a beam of one is greedy."""
        return 2 * beam_size if self.refill and beam_size > 1 else beam_size


PAPER = BeamRule()


def hugging_face(early_stopping: bool | Literal["never"] = False) -> BeamRule:
    """Return the beam search of `transformers`' `generate` with this `early_stopping`.

    `alpha` is then its `length_penalty`, and `max_length` its `max_new_tokens`.
    """
    bound: Literal["longest", "current", "none"] = "none" if early_stopping is True else "current"
    if early_stopping == "never":
        bound = "longest"
    return BeamRule(plain_length=True, refill=True, cut_competes=True, bound=bound)


def length_penalty(length: int, alpha: float) -> float:
    """Return lp(Y) = ((5 + |Y|) / 6)^alpha (Wu et al. 2016, eq. 14); `length` counts `</s>`."""
    return float(((5 + length) / 6) ** alpha)


@dataclass(frozen=True)
class SearchSettings:
    """Settings of a search, which `transformer.search.request` checks."""

    beam_size: int = 4  # hypotheses kept alive for each sentence
    # Exponent of the length penalty, at least 0; 0 compares plain log-probabilities.
    alpha: float = 0.6
    rule: BeamRule = PAPER  # how hypotheses are scored and when a sentence ends
    bos_id: int = 1  # starts the decoder
    eos_id: int = 2  # ends a sentence
    # Ids never generated (a forced prefix may hold them). Probabilities of the others are left as
    # they are, not renormalised.
    suppressed: tuple[int, ...] = ()
    # Ids left out before normalising, so that the others share their probability.
    excluded: tuple[int, ...] = ()
    # End every hypothesis of the longest length in `</s>`, which costs nothing, since there is no
    # choice.
    forced_eos: bool = False
    # Number of finished hypotheses that must be certain before a sentence ends; None is
    # `beam_size`. The best hypothesis does not depend on it.
    n_best: int | None = None
    record: bool = False  # keep a `SearchStep` for every step
    top_k: int = 10  # alternatives kept per row and step when recording
    sampling: Sampling | None = None  # sample each token instead; needs a beam of one

    @property
    def n_ranked(self) -> int:
        """Number of continuations of a sentence considered together."""
        return self.rule.n_ranked(self.beam_size)

    def penalty(self, length: int) -> float:
        """Return the divisor of log P for a hypothesis of `length` tokens."""
        return self.rule.penalty(length, self.alpha)
