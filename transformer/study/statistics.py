"""Intervals and tests of scores that are shares of pairs, where pairs of one document are alike.

A score is hits / pairs. Words of one document share topic, names and style, so the document, not
the pair, is what is drawn at random. Even documents choose, odd ones test: a head is a candidate
for a role if its score is above every control in the even documents, and all numbers that a study
reports are of the odd ones. So the best of many heads has an interval like any other.

- **Interval**: documents are drawn with replacement, as many as there are, 2,000 times with a fixed
  seed; 2.5% of the scores lie below `low`, 2.5% above `high`.
- **Paired test**: each document has the difference between the head's hits and a control's on the
  same pairs. Their mean over documents, in standard errors, follows Student's t with one degree of
  freedom less than there are documents. One-sided: p is small where the head does better. There is
  a test for each control, with the distance, word and random head that do best in the even
  documents; the largest p counts, and Holm's correction is over all candidates.
- **Second text**: a role of a text must pass again there, without correction, in all documents; a
  role of annotation only if the second text is annotated.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import reduce
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from transformer.measures.heads import rank_correlation
from transformer.measures.significance import holm, rank_interval, student_sf
from transformer.study.records import Role
from transformer.study.roles import MAX_OFFSET, MIN_PAIRS, Tally
from transformer.types import AttentionKind, Bools, Floats, Reals

#: Times that documents are drawn, and the share of scores inside the interval.
DRAWS, INSIDE = 2_000, 0.95
#: Highest p of a role that is named.
ALPHA = 0.05


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


def scored(
    roles: Sequence[Role], tally: Tally, choose: Bools, test: Bools
) -> dict[str, NDArray[Any]]:
    """Return the scores [R, N] of one kind by name, p without correction.

    Args: choose, test: [documents], where heads and controls are chosen, and where they are tested.
    """
    plain = np.array([role.needs == "text" for role in roles])[:, None]  # [R, 1]
    words: dict[int, Counter[str]] = defaultdict(Counter)
    for (document, role, form), n in tally.words.items():
        words[role][form] += n * int(choose[document])
    nearest = np.zeros((*tally.pairs.shape, 1), np.int32)
    for role, forms in words.items():
        form = max(forms, key=forms.__getitem__)
        nearest[:, role, 0] = [tally.words[at, role, form] for at in range(len(nearest))]

    def best(hits: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return which column [R, 1] of [D, R, K] is best where one chooses, and it [D, R, 1]."""
        at = hits[choose].sum(0).argmax(-1)[:, None]
        return at, np.take_along_axis(hits, at[None], 2)

    offsets, offset = best(tally.offsets)
    #: controls by name, [D, R, 1 or N]
    controls = {"random": best(tally.random)[1], "offset": offset, "word": nearest,
                "blind": tally.blind}  # fmt: skip

    def shares(part: Bools) -> tuple[dict[str, NDArray[Any]], NDArray[Any]]:
        """Return the scores of heads and controls over some documents, and the bar."""
        total = tally.pairs[part].sum(0)[:, None]
        every = {"score": tally.hits, **controls}
        with np.errstate(divide="ignore", invalid="ignore"):
            found = {name: hits[part].sum(0) / total for name, hits in every.items()}
        for name in ("offset", "word", "blind"):
            found[name] = np.where(plain, np.nan, found[name])
        # What most trials of random weights do as well is nothing that a head has learned.
        half = np.where(plain, np.where(found["random"] > 0.5, 1.0, 0.5), np.nan)
        return found, reduce(np.fmax, (found[name] for name in controls), half + 0 * found["score"])

    first, bar = shares(choose)
    margin = np.nan_to_num(first["score"] - bar, nan=-1.0)
    scores, bar = shares(test)
    pairs = tally.pairs[test].astype(np.float64)[:, :, None]  # [D, R, 1]
    hits, flat = tally.hits[test], (len(pairs), -1)
    low, high = bootstrap(
        hits.astype(np.float64).reshape(flat), np.broadcast_to(pairs, hits.shape).reshape(flat)
    )
    found = {name if name in ("score", "random", "blind") else f"{name}_score": share
             for name, share in scores.items()}  # fmt: skip
    found |= {"choice": margin, "bar": bar, "low": low.reshape(hits.shape[1:]),
              "high": high.reshape(hits.shape[1:])}  # fmt: skip
    for name, control in controls.items():
        differences = np.where(pairs > 0, hits - control[test], np.nan).reshape(flat)
        p = paired_p(differences).reshape(hits.shape[1:])
        found[f"{name}_p"] = p if name == "random" else np.where(plain, np.nan, p)
    found["p"] = np.fmax.reduce([found[f"{name}_p"] for name in controls])
    few = (tally.pairs.sum(0) < MIN_PAIRS)[:, None] | (pairs.sum(0) == 0)
    found = {name: np.where(few, np.nan, np.broadcast_to(share, hits.shape[1:]))
             for name, share in found.items()}  # fmt: skip
    for name, count in (("pairs", pairs.sum(0)),
                        ("offset", np.where(plain, 0, offsets - MAX_OFFSET))):  # fmt: skip
        found[name] = np.broadcast_to(np.where(few, 0, count), hits.shape[1:]).astype(np.int32)
    return found


def judged(
    roles: Sequence[Role], tallies: Sequence[Tally], again: Mapping[str, NDArray[Any]] | None
) -> dict[str, NDArray[Any]]:
    """Return the scores [R, N] of all kinds by name, tested and corrected.

    Args: again: the scores [R, N] of a second text, see `scored`; NaN where it has no trials.
    """
    every = np.ones(len(tallies[0].pairs), bool)
    odd = np.arange(len(every)) % 2 == 1
    choose, test = (~odd, odd) if len(every) > 1 else (every, every)
    kinds = [scored(roles, tally, choose, test) for tally in tallies]
    found = {name: np.concatenate([kind[name] for kind in kinds], axis=1) for name in kinds[0]}
    plain = np.array([role.needs == "text" for role in roles])[:, None]
    found["p"] = holm(np.where(found["choice"] > 0, found["p"], np.nan))

    def holds(scores: Mapping[str, NDArray[Any]]) -> Bools:
        passed: Bools = (scores["p"] < ALPHA) & (~plain | (scores["low"] > 0.5))
        return passed

    found["named"] = holds(found)
    if again is not None:
        found["named"] &= holds(again) | (~plain & np.isnan(again["p"]))
    for name in ("score", "low", "p"):
        missing = np.full(found["p"].shape, np.nan)
        found[f"again_{name}"] = missing if again is None else again[name]
    return {name: array.astype(np.float32) if array.dtype == np.float64 else array
            for name, array in found.items()}  # fmt: skip


#: Below this reliability a measure is mostly noise, and a corrected correlation means nothing.
LEAST_RELIABLE = 0.3


class Agreement(NamedTuple):
    """Spearman's rank correlation of two measures over all heads; NaN if one is constant."""

    r: float
    low: float  # 95% interval, heads as the sample
    high: float
    #: for the reliabilities of both, at most 1; NaN if one is unknown or below `LEAST_RELIABLE`
    corrected: float


def agreement(
    measures: Mapping[str, Mapping[AttentionKind, Floats]],
    reliability: Mapping[str, float] = MappingProxyType({}),
) -> dict[tuple[str, str], Agreement]:
    """Return how far each two measures rank the heads alike."""
    joined = {
        name: np.concatenate([grid.ravel() for grid in found.values()])
        for name, found in measures.items()
    }
    found = {}
    for pair in itertools.combinations(joined, 2):
        one, other = (joined[name] for name in pair)
        known = [reliability.get(name, 0) for name in pair]
        r, corrected = rank_correlation(one, other), math.nan
        if min(known) >= LEAST_RELIABLE:
            corrected = max(-1.0, min(1.0, r / math.sqrt(math.prod(known))))
        found[pair] = Agreement(r, *rank_interval(r, len(one)), corrected)
    return found
