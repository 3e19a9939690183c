"""Entropy in bits and sharpness of attention rows (section 3.2.1).

H(p) = -sum_i p_i log2 p_i measures uncertainty: 0 if one outcome is certain, log2 n if n are
equally likely. Traces record next-token entropies in nats; `nats_to_bits` converts them.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transformer.measures.registered import register_measure
from transformer.types import Bools, Floats

#: The definition of `evenness` in one sentence, for the screen.
EVENNESS_RULE = (
    "Each number is a head's entropy as a share of its maximum, averaged over its rows: "
    "0 where every query looks at one key only, 1 where it looks at all keys alike."
)


def entropy_bits(rows: Floats | NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the entropy in bits of distributions along the last axis, [..., m] to [...].

    Entries of 0, such as masked keys, contribute nothing.
    """
    values = np.asarray(rows, dtype=np.float64)
    logs = np.log2(values, out=np.zeros_like(values), where=values > 0)
    entropy: NDArray[np.float64] = np.maximum(-(values * logs).sum(axis=-1), 0.0)
    return entropy


def nats_to_bits(nats: Floats) -> Floats:
    """Return entropies or log-probabilities in bits."""
    return nats / math.log(2)


def evenness(maps: Floats) -> NDArray[np.float64]:
    """Return the evenness of each head, [L, H, n, m] to [L, H], 0 to 1: see `EVENNESS_RULE`.

    Keys that no head sees, such as later tokens in causal maps, are ignored. Rows with a single
    visible key carry no information and are left out.
    """
    visible = (maps > 0).any(axis=(0, 1)).sum(axis=-1)  # [n], number of keys visible to any head
    rows = visible > 1
    if not rows.any():
        return np.zeros(maps.shape[:2])
    share: NDArray[np.float64] = entropy_bits(maps)[..., rows] / np.log2(visible[rows])
    mean: NDArray[np.float64] = share.mean(axis=-1)
    return mean


@dataclass(frozen=True)
class Spread:
    """Sharpness measures for one row of weights."""

    entropy: float  # in bits; 0 if one key has all the weight, log2 n if n keys share it equally
    largest: float  # largest weight
    # Sum over keys of d a_j / d e_j = a_j (1 - a_j), the slope of each weight in its own logit;
    # 0 for a saturated softmax, which passes no gradient back.
    slope: float


def spread(weights: Floats) -> Spread:
    """Measure one row of weights [m] that sums to 1; masked keys have weight 0."""
    a = weights.astype(np.float64)
    return Spread(
        entropy=float(entropy_bits(a)),
        largest=float(a.max()),
        slope=max(0.0, float((a * (1 - a)).sum())),
    )


def divided(dots: Floats, mask: Bools, divisor: float) -> Floats:
    """Return softmax(dots / divisor) over visible keys, in float64.

    Args:
        dots: [m], q . k.  mask: [m], True = may attend.
        divisor: sqrt(d_k) in the paper, 1 for no division.
    """
    logits = np.where(mask, dots.astype(np.float64) / divisor, -np.inf)
    powers = np.exp(logits - logits.max())
    weights: Floats = powers / powers.sum()
    return weights


register_measure("evenness", evenness)
