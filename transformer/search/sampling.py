"""Sampling of the next token with temperature, top-k and nucleus.

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

import numpy as np
from numpy.typing import NDArray

from transformer.search.inputs import checked_number, checked_whole

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
