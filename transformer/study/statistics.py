"""Intervals and tests of scores that are shares of pairs, where pairs of one document are alike.

A score is hits / pairs over the whole corpus. Words of one document share topic, names and style,
so the document, not the pair, is what is drawn at random:

- **Interval**: documents are drawn with replacement, as many as there are, 2,000 times with a fixed
  seed; 2.5% of the scores lie below `low`, 2.5% above `high`.
- **Paired test**: each document has the difference between the head's hits and the control's on the
  same pairs. Their mean over documents, in standard errors, follows Student's t with one degree of
  freedom less than there are documents. One-sided: p is small where the head does better.
- **Holm**: of m tests, the smallest p is multiplied by m, the next one by m - 1, and so on, never
  below one before it, so that the chance of even one false finding stays below 0.05.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

#: Times that documents are drawn, and the share of scores inside the interval.
DRAWS, INSIDE = 2_000, 0.95
#: Nodes of the integral of Student's t.
_NODES = 200


def bootstrap(hits: Numbers, pairs: Numbers, *, seed: int = 0) -> tuple[Numbers, Numbers]:
    """Return the ends of the interval of hits / pairs, [K] each.

    Args: hits, pairs: [documents, K].
    """
    n = len(hits)
    rng = np.random.default_rng(seed)
    times = rng.multinomial(n, np.full(n, 1 / n), size=DRAWS).astype(np.float64)  # [draws, n]
    ends, edges = np.empty((2, hits.shape[1])), (50 - 50 * INSIDE, 50 + 50 * INSIDE)
    for start in range(0, hits.shape[1], 500):  # bounds the memory
        part = slice(start, start + 500)
        drawn = times @ pairs[:, part]
        scores = np.divide(times @ hits[:, part], drawn, out=np.full_like(drawn, np.nan),
                           where=drawn > 0)  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about what no draw has pairs of
            ends[:, part] = np.nanpercentile(scores, edges, axis=0)
    return ends[0], ends[1]


def paired_p(differences: Numbers) -> Numbers:
    """Return one-sided p-values [K] of differences [documents, K] being above 0 on average.

    Documents without pairs have to be left out or NaN; of fewer than two, p is 1.
    """
    known = ~np.isnan(differences)
    n = known.sum(0)
    total = np.where(known, differences, 0).sum(0)
    mean = total / np.maximum(n, 1)
    squares = np.where(known, (differences - mean) ** 2, 0).sum(0)
    error = np.sqrt(squares / np.maximum(n - 1, 1) / np.maximum(n, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(mean == 0, 0.0, mean / error)
    return np.where(n < 2, 1.0, student_sf(t, np.maximum(n - 1, 1)))


def student_sf(t: Numbers, freedom: NDArray[np.int64]) -> Numbers:
    """Return P(T > t) of Student's t, of [K] values and degrees of freedom.

    The density is integrated after t = sqrt(freedom) tan(a), which makes it cos(a)^(freedom - 1).
    """
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)

    def integral(start: Numbers) -> Numbers:
        half = (np.pi / 2 - start) / 2
        angles = start[:, None] + half[:, None] * (nodes + 1)
        area: Numbers = (np.cos(angles) ** (freedom[:, None] - 1)) @ weights * half
        return area

    upper = integral(np.arctan(np.abs(t) / np.sqrt(freedom)))
    share = upper / (2 * integral(np.zeros(len(t))))
    return np.where(t < 0, 1 - share, share)


def holm(p: Numbers) -> Numbers:
    """Return p-values corrected for all tests; NaN is no test and stays."""
    adjusted, tests = np.full(p.shape, np.nan), np.flatnonzero(~np.isnan(p))
    order = tests[np.argsort(p.flat[tests], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    adjusted.flat[order] = np.minimum(np.maximum.accumulate(p.flat[order] * factors), 1)
    return adjusted
