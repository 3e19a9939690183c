"""How a beam search scores translations and when it ends: the paper's way, and another one.

Two searches over the same model with the same beam may find different translations, because the
paper (section 6.1) leaves open how a beam is kept full and when it may stop. This search's own
answers are `PAPER`; `hugging_face` gives those of that library's `generate`, so that the two can be
compared token by token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class BeamRule:
    """What searches do differently.

    Attributes:
        plain_length: divide log P by |Y|^alpha, instead of the penalty of Wu et al. 2016.
        refill: where some of the `beam_size` best continuations end, let the next best live on
            in their place; otherwise the beam is narrower until the next step.
        cut_competes: a hypothesis cut at the longest length is ranked with those that ended;
            otherwise it counts only where none ended.
        bound: the length that a live hypothesis is scored with to see whether it can still win.
            "longest" is certain, "current" a guess that stops earlier, and with "none" a sentence
            ends as soon as `beam_size` translations have.
    """

    plain_length: bool = False
    refill: bool = False
    cut_competes: bool = False
    bound: Literal["longest", "current", "none"] = "longest"

    def penalty(self, length: int, alpha: float) -> float:
        """What log P of `length` tokens, `</s>` counted, is divided by."""
        return float(length**alpha) if self.plain_length else length_penalty(length, alpha)

    def n_ranked(self, beam_size: int) -> int:
        """How many continuations of a sentence are looked at; a beam of one is greedy."""
        return 2 * beam_size if self.refill and beam_size > 1 else beam_size


PAPER = BeamRule()


def hugging_face(early_stopping: bool | Literal["never"] = False) -> BeamRule:
    """The beam search of `transformers`' `generate` with this `early_stopping`.

    `alpha` is then its `length_penalty`, and `max_length` its `max_new_tokens`.
    """
    bound: Literal["longest", "current", "none"] = "none" if early_stopping is True else "current"
    if early_stopping == "never":
        bound = "longest"
    return BeamRule(plain_length=True, refill=True, cut_competes=True, bound=bound)


def length_penalty(length: int, alpha: float) -> float:
    """lp(Y) = ((5 + |Y|) / 6)^alpha of Wu et al. 2016, eq. 14; `length` counts `</s>`."""
    return float(((5 + length) / 6) ** alpha)
