"""Rules of beam search: how hypotheses are scored and when a search ends.

Two searches over one model with the same beam may find different translations, since the paper
(section 6.1) does not say how a beam is kept full and when it may stop. `PAPER` is this project's
choice; `hugging_face` is that of the library's `generate`, for comparison token by token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class BeamRule:
    """The choices in which implementations differ.

    Attributes:
        plain_length: divide log P by |Y|^alpha, instead of the penalty of Wu et al. 2016.
        refill: replace continuations that end by the next best ones at once; otherwise the beam
            is narrower until the next step.
        cut_competes: a hypothesis cut at the longest length is ranked with those that ended;
            otherwise it counts only if none ended.
        bound: the length at which a live hypothesis is scored to decide whether it can still win.
            "longest" is exact, "current" a heuristic that stops earlier; with "none" a sentence
            ends as soon as `beam_size` hypotheses have finished.
    """

    plain_length: bool = False
    refill: bool = False
    cut_competes: bool = False
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
