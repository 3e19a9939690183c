"""How sharp a softmax is, and by what its logits are divided for that (section 3.2.1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from transformer.measures.entropy import entropy_bits
from transformer.types import Bools, Floats


@dataclass(frozen=True)
class Spread:
    """Measures of one row of weights.

    Attributes:
        entropy: in bits; 0 if one key takes all, log2 n if all n are equal.
        largest: the largest weight.
        slope: the sum over keys of d a_j / d e_j = a_j (1 - a_j), the response of the weights to
            their own logits; 0 for a saturated softmax, which then passes no gradient back.
    """

    entropy: float
    largest: float
    slope: float


def spread(weights: Floats) -> Spread:
    """Measure one row of weights [m] that sums to 1; masked ones are 0 and do not count."""
    a = weights.astype(np.float64)
    return Spread(
        entropy=float(entropy_bits(a)),
        largest=float(a.max()),
        slope=max(0.0, float((a * (1 - a)).sum())),
    )


def divided(dots: Floats, mask: Bools, divisor: float) -> Floats:
    """Return softmax(dots / divisor) over the keys that may be seen, in float64.

    Args:
        dots: [m], q . k.  mask: [m], True = may attend.
        divisor: sqrt(d_k) in the paper, 1 for no division.
    """
    logits = np.where(mask, dots.astype(np.float64) / divisor, -np.inf)
    powers = np.exp(logits - logits.max())
    weights: Floats = powers / powers.sum()
    return weights
