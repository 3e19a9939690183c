"""Three measures of how sharp a softmax is, the reason to divide by sqrt(d_k) (3.2.1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from transformer.measures.entropy import entropy_bits
from transformer.types import Floats


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
