"""How sharp a softmax is, in three numbers: what dividing by sqrt(d_k) is there for (3.2.1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from transformer.types import Floats


@dataclass(frozen=True)
class Spread:
    """One row of weights in numbers.

    Attributes:
        entropy: in bits; 0 where one key takes everything, log2 n where all n are alike.
        largest: the largest weight.
        slope: the sum over keys of d a_j / d e_j = a_j (1 - a_j), how much the weights answer to
            their own logits; 0 for a saturated softmax, which then passes no gradient back.
    """

    entropy: float
    largest: float
    slope: float


def spread(weights: Floats) -> Spread:
    """The numbers of one row of weights [m] that sums to 1; masked ones are 0 and count nothing."""
    a = weights.astype(np.float64)
    some = a[a > 0]
    return Spread(
        entropy=max(0.0, float(-(some * np.log2(some)).sum())),
        largest=float(a.max()),
        slope=max(0.0, float((a * (1 - a)).sum())),
    )
