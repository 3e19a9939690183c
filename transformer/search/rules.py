"""Search settings: rules for scoring hypotheses and ending a search, and sampling.

Searches with the same model and beam may differ, since the paper (section 6.1) does not say how to
keep a beam full and when to stop. `PAPER` is this project's choice; `hugging_face` is the rule of
the library's `generate`, for comparison token by token.

The model's distribution changes in this order: suppressed tokens are removed, logits are divided by
the temperature, then only the `top_k` most probable tokens remain, and of these the nucleus, the
smallest set of most probable tokens with a probability of `top_p` (Holtzman et al. 2020, section
3.1). The rest is renormalised.

All tokens of the vocabulary get a random number u, and the token with the largest probability /
-log(u) is taken (the exponential form of the Gumbel-max trick). Batches, executions and devices
compute logits that differ in the last digits, which changes the token only if the two largest
quotients agree to as many digits.

Departure: the paper decodes by beam search only (section 6.1).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from transformer.search.inputs import checked_number, checked_whole
from transformer.types import literals

MAX_TEMPERATURE, MAX_SEED = 100.0, 2**32 - 1


@dataclass(frozen=True)
class Sampling:
    """Sampling settings.

    Raises: `InputError` that names the setting, its value and the allowed values.
    """

    temperature: float = 1.0  # above 0; 1 is the model's distribution, the limit 0 is greedy
    top_k: int = 0  # number of tokens; 0 for all
    top_p: float = 1.0  # probability of the nucleus, above 0; 1 for all tokens
    seed: int = 0  # one seed gives one translation, alone and in any batch

    def __post_init__(self) -> None:
        checked_number("temperature", self.temperature, MAX_TEMPERATURE, positive=True)
        checked_whole("top_k", self.top_k, least=0)
        checked_number("top_p", self.top_p, 1, positive=True)
        checked_whole("seed", self.seed, MAX_SEED, least=0)


@dataclass(frozen=True, eq=False)
class Drawn:
    """One sampled token."""

    token: int  # token id
    log_prob: float  # under the model's distribution
    allowed: NDArray[np.int64]  # [n] possible ids, most probable first


def draw(
    log_probs: NDArray[np.floating], sampling: Sampling, step: int, suppressed: Sequence[int] = ()
) -> Drawn:
    """Sample the next token.

    Random numbers depend on seed, step and token id only: number `id` of
    `default_rng([seed, step]).random(V)`. So a translation does not change if its own prefix is
    forced, or if its batch does.

    Args:
        log_probs: [V], the model's log-probabilities in nats, -inf allowed.
        step: 0-based step.
        suppressed: ids that are never sampled.

    Raises: `ValueError` if no token is left.
    """
    allowed, probabilities = distribution(log_probs, sampling, suppressed)
    numbers = np.random.default_rng([sampling.seed, step]).random(len(log_probs))
    with np.errstate(divide="ignore"):  # u may be 0
        token = int(allowed[np.argmax(probabilities / -np.log(numbers[allowed]))])
    return Drawn(token, float(log_probs[token]), allowed)


def distribution(
    log_probs: NDArray[np.floating], sampling: Sampling, suppressed: Sequence[int] = ()
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the ids to sample from, most probable first, and their probabilities; see `draw`.

    Equally probable tokens are in the order of their ids.
    """
    scores = log_probs.astype(np.float64)
    scores[list(suppressed)] = -np.inf
    order = np.argsort(-scores, kind="stable")
    order = order[: int(np.count_nonzero(scores > -np.inf))]
    if not len(order):
        raise ValueError("no token is left to draw from")
    if sampling.top_k:
        order = order[: sampling.top_k]
    # Relative to the largest score, so that no temperature overflows.
    with np.errstate(over="ignore"):
        odds = np.exp((scores[order] - scores[order[0]]) / sampling.temperature)
    if sampling.top_p < 1:
        reached = np.cumsum(odds) / odds.sum()
        n_nucleus = int(np.searchsorted(reached, sampling.top_p, "left")) + 1
        order, odds = order[:n_nucleus], odds[:n_nucleus]
    return order.astype(np.int64), odds / odds.sum()


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
