"""Entropy in bits, and how evenly rows of attention spread.

H(p) = -sum_i p_i log2 p_i measures uncertainty: 0 if one outcome is certain, log2 n if n are
equally likely. Traces record entropies of next-token distributions in nats, as computed by the
search; `nats_to_bits` converts those.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from transformer.types import Floats

#: The definition of `evenness` in one sentence, for the screen.
EVENNESS_RULE = (
    "Each number is a head's entropy as a share of its maximum, averaged over its rows: "
    "0 where every query looks at one key only, 1 where it looks at all keys alike."
)


def entropy_bits(rows: Floats | NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the entropy of distributions along the last axis, in bits. Shapes: [..., m] to [...].

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
    """Return how evenly each head looks, [L, H, n, m] to [L, H], 0 to 1: see `EVENNESS_RULE`.

    Keys that no head sees do not count: a causal map has only zeros for later ones. Rows with a
    single visible key carry no information and are left out.
    """
    visible = (maps > 0).any(axis=(0, 1)).sum(axis=-1)  # [n], keys that any head sees
    some = visible > 1
    if not some.any():
        return np.zeros(maps.shape[:2])
    share: NDArray[np.float64] = entropy_bits(maps)[..., some] / np.log2(visible[some])
    mean: NDArray[np.float64] = share.mean(axis=-1)
    return mean
