"""Student's t, Holm's correction for multiple tests, and rank correlation intervals."""

import math

import numpy as np
from numpy.typing import NDArray

from transformer.types import Reals

#: Quadrature nodes for Student's t.
_NODES = 200


def student_sf(t: Reals, freedom: NDArray[np.int64]) -> Reals:
    """Return P(T > t) for Student's t, for [K] values and degrees of freedom.

    Substituting t = sqrt(freedom) tan(a) turns the density into cos(a)^(freedom - 1).
    """
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)

    def integral(start: Reals) -> Reals:
        half = (np.pi / 2 - start) / 2
        angles = start[:, None] + half[:, None] * (nodes + 1)
        area: Reals = (np.cos(angles) ** (freedom[:, None] - 1)) @ weights * half
        return area

    upper = integral(np.arctan(np.abs(t) / np.sqrt(freedom)))
    share = upper / (2 * integral(np.zeros(len(t))))
    return np.where(t < 0, 1 - share, share)


def rank_interval(r: float, n: int) -> tuple[float, float]:
    """Return the 95% interval of Spearman's correlation over n pairs."""
    if n < 4 or not abs(r) < 1:
        return (-1.0, 1.0) if n < 4 else (r, r)
    half = 1.96 * math.sqrt((1 + r * r / 2) / (n - 3))
    return math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half)


def holm(p: Reals) -> Reals:
    """Return p-values with Holm's (1979) correction for multiple tests; NaN entries stay NaN.

    Of m tests, the smallest p is multiplied by m, the next by m - 1, and so on, keeping their
    order. This bounds the probability of any false positive.
    """
    adjusted, tests = np.full(p.shape, np.nan), np.flatnonzero(~np.isnan(p))
    order = tests[np.argsort(p.flat[tests], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    adjusted.flat[order] = np.minimum(np.maximum.accumulate(p.flat[order] * factors), 1)
    return adjusted
