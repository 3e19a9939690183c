"""Intervals and tests of scores that are shares of pairs, where pairs of one document are alike.

A score is hits / pairs over the whole corpus. Words of one document share topic, names and style,
so the document, not the pair, is what is drawn at random:

- **Interval**: documents are drawn with replacement, as many as there are, 2,000 times with a fixed
  seed; 2.5% of the scores lie below `low`, 2.5% above `high`.
- **Paired test**: each document has the difference between the head's hits and the control's on the
  same pairs. Their mean over documents, in standard errors, follows Student's t with one degree of
  freedom less than there are documents. One-sided: p is small where the head does better.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer.measures.significance import student_sf
from transformer.study.records import Role
from transformer.study.roles import MAX_OFFSET, MIN_PAIRS, Tally
from transformer.types import Reals

#: Times that documents are drawn, and the share of scores inside the interval.
DRAWS, INSIDE = 2_000, 0.95


def bootstrap(hits: Reals, pairs: Reals, *, seed: int = 0) -> tuple[Reals, Reals]:
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


def paired_p(differences: Reals) -> Reals:
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


def scored(roles: Sequence[Role], tally: Tally) -> dict[str, NDArray[Any]]:
    """Return the scores [R, N] of one kind by name, p without correction."""
    shape = tally.hits.shape  # [D, R, N]
    pairs = tally.pairs.astype(np.float64)[:, :, None]  # [D, R, 1]
    total = pairs.sum(0)  # [R, 1]
    offsets = tally.offsets.sum(0).argmax(-1)[:, None]  # [R, 1]
    beaten = np.take_along_axis(tally.offsets, offsets[None], 2)  # [D, R, 1]
    plain = np.array([role.needs == "text" for role in roles])[:, None]  # [R, 1]
    words = np.array([[max(tally.words[role.name].values(), default=0)] for role in roles])
    with np.errstate(divide="ignore", invalid="ignore"):
        random = tally.random.max(1, keepdims=True) / total
        found = {
            "score": tally.hits.sum(0) / total,
            "random": random,
            "offset_score": np.where(plain, np.nan, beaten.sum(0) / total),
            "word_score": np.where(plain, np.nan, words / total),
            "blind": np.where(plain, np.nan, tally.blind / total),
        }
    # What most trials of random weights do as well is nothing that a head has learned.
    half = np.where(plain, np.where(random > 0.5, 1.0, 0.5), np.nan)
    found["bar"] = np.fmax.reduce([np.broadcast_to(each, shape[1:]) for each in
                                   (half, *(found[name] for name in list(found)[1:]))])  # fmt: skip
    differences = tally.hits - np.where(plain, pairs / 2, beaten)
    flat = shape[0], -1
    low, high = bootstrap(
        tally.hits.astype(np.float64).reshape(flat), np.broadcast_to(pairs, shape).reshape(flat)
    )
    p = paired_p(np.where(pairs > 0, differences, np.nan).reshape(flat))
    found |= {name: each.reshape(shape[1:]) for name, each in
              (("low", low), ("high", high), ("p", p))}  # fmt: skip
    few = total < MIN_PAIRS
    found = {name: np.where(few, np.nan, np.broadcast_to(each, shape[1:]))
             for name, each in found.items()}  # fmt: skip
    for name, each in (("pairs", total), ("offset", np.where(plain, 0, offsets - MAX_OFFSET))):
        found[name] = np.broadcast_to(np.where(few, 0, each), shape[1:]).astype(np.int32)
    return found
