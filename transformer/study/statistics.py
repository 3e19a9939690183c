"""Confidence intervals and tests of role scores, with documents as the sampling unit.

A score is hits / pairs. Words in a document share topic, names and style, so documents, not pairs,
are resampled. Heads and controls are chosen in even documents and tested in odd documents: a head
is a candidate for a role if it scores above every control in even documents, and all reported
values are from odd documents. The best of many heads therefore has a valid interval.

- **Interval**: all documents are resampled with replacement 2,000 times with a fixed seed; 2.5% of
  the scores lie below `low`, 2.5% above `high`.
- **Paired test**: per document, the head's hits minus a control's hits on the same pairs. The mean
  difference in standard errors follows Student's t with one degree of freedom less than documents.
  One-sided: p is small if the head does better. Each control is tested, with the distance, word and
  random head that score best in even documents; the maximum p counts, with Holm's correction over
  all candidates.
- **Second text**: a text role must also pass there, uncorrected, over all documents; an annotation
  role only if the second text is annotated.
"""

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

#: Bootstrap resamples, and coverage of the interval.
DRAWS, INSIDE = 2_000, 0.95
#: Maximum p for a named role.
ALPHA = 0.05


def bootstrap(hits: Reals, pairs: Reals, *, seed: int = 0) -> tuple[Reals, Reals]:
    """Return both ends [K] of the interval of hits / pairs, from [documents, K] each."""
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
            warnings.simplefilter("ignore")  # if no draw has pairs
            ends[:, part] = np.nanpercentile(scores, edges, axis=0)
    return ends[0], ends[1]


def paired_p(differences: Reals) -> Reals:
    """Return one-sided p-values [K] for mean differences [documents, K] above 0.

    Documents without pairs must be NaN or left out; p is 1 for fewer than two documents.
    """
    valid = ~np.isnan(differences)
    n = valid.sum(0)
    total = np.where(valid, differences, 0).sum(0)
    mean = total / np.maximum(n, 1)
    squares = np.where(valid, (differences - mean) ** 2, 0).sum(0)
    error = np.sqrt(squares / np.maximum(n - 1, 1) / np.maximum(n, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(mean == 0, 0.0, mean / error)
    return np.where(n < 2, 1.0, student_sf(t, np.maximum(n - 1, 1)))


def scored(
    roles: Sequence[Role], tally: Tally, choose: Bools, test: Bools
) -> dict[str, NDArray[Any]]:
    """Return score arrays [R, N] for one kind by name, with uncorrected p.

    Args: choose, test: [documents], used to choose heads and controls, and to test them.
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
        """Return the best column [R, 1] of [D, R, K] in `choose`, and its hits [D, R, 1]."""
        at = hits[choose].sum(0).argmax(-1)[:, None]
        return at, np.take_along_axis(hits, at[None], 2)

    offsets, offset = best(tally.offsets)
    #: controls by name, [D, R, 1 or N]
    controls = {"random": best(tally.random)[1], "offset": offset, "word": nearest,
                "blind": tally.blind}  # fmt: skip

    def shares(part: Bools) -> tuple[dict[str, NDArray[Any]], NDArray[Any]]:
        """Return scores of heads and controls over some documents, and the highest control."""
        total = tally.pairs[part].sum(0)[:, None]
        hits_of = {"score": tally.hits, **controls}
        with np.errstate(divide="ignore", invalid="ignore"):
            result = {name: hits[part].sum(0) / total for name, hits in hits_of.items()}
        for name in ("offset", "word", "blind"):
            result[name] = np.where(plain, np.nan, result[name])
        # A role that random weights follow in most trials is not learned.
        half = np.where(plain, np.where(result["random"] > 0.5, 1.0, 0.5), np.nan)
        bars = (result[name] for name in controls)
        return result, reduce(np.fmax, bars, half + 0 * result["score"])

    first, bar = shares(choose)
    margin = np.nan_to_num(first["score"] - bar, nan=-1.0)
    scores, bar = shares(test)
    pairs = tally.pairs[test].astype(np.float64)[:, :, None]  # [D, R, 1]
    hits, flat = tally.hits[test], (len(pairs), -1)
    low, high = bootstrap(
        hits.astype(np.float64).reshape(flat), np.broadcast_to(pairs, hits.shape).reshape(flat)
    )
    arrays = {name if name in ("score", "random", "blind") else f"{name}_score": share
              for name, share in scores.items()}  # fmt: skip
    arrays |= {"choice": margin, "bar": bar, "low": low.reshape(hits.shape[1:]),
               "high": high.reshape(hits.shape[1:])}  # fmt: skip
    for name, control in controls.items():
        differences = np.where(pairs > 0, hits - control[test], np.nan).reshape(flat)
        p = paired_p(differences).reshape(hits.shape[1:])
        arrays[f"{name}_p"] = p if name == "random" else np.where(plain, np.nan, p)
    arrays["p"] = np.fmax.reduce([arrays[f"{name}_p"] for name in controls])
    few = (tally.pairs.sum(0) < MIN_PAIRS)[:, None] | (pairs.sum(0) == 0)
    arrays = {name: np.where(few, np.nan, np.broadcast_to(share, hits.shape[1:]))
              for name, share in arrays.items()}  # fmt: skip
    for name, count in (("pairs", pairs.sum(0)),
                        ("offset", np.where(plain, 0, offsets - MAX_OFFSET))):  # fmt: skip
        arrays[name] = np.broadcast_to(np.where(few, 0, count), hits.shape[1:]).astype(np.int32)
    return arrays


def judged(
    roles: Sequence[Role], tallies: Sequence[Tally], again: Mapping[str, NDArray[Any]] | None
) -> dict[str, NDArray[Any]]:
    """Return score arrays [R, N] for all kinds by name, tested and corrected.

    Args: again: score arrays [R, N] for a second text from `scored`; NaN without trials.
    """
    odd = np.arange(len(tallies[0].pairs)) % 2 == 1
    choose, test = (~odd, odd) if len(odd) > 1 else (~odd, ~odd)
    kinds = [scored(roles, tally, choose, test) for tally in tallies]
    arrays = {name: np.concatenate([kind[name] for kind in kinds], axis=1) for name in kinds[0]}
    plain = np.array([role.needs == "text" for role in roles])[:, None]
    arrays["p"] = holm(np.where(arrays["choice"] > 0, arrays["p"], np.nan))

    def holds(arrays: Mapping[str, NDArray[Any]]) -> Bools:
        passed: Bools = (arrays["p"] < ALPHA) & (~plain | (arrays["low"] > 0.5))
        return passed

    arrays["named"] = holds(arrays)
    if again is not None:
        arrays["named"] &= holds(again) | (~plain & np.isnan(again["p"]))
    for name in ("score", "low", "p"):
        missing = np.full(arrays["p"].shape, np.nan)
        arrays[f"again_{name}"] = missing if again is None else again[name]
    return {name: array.astype(np.float32) if array.dtype == np.float64 else array
            for name, array in arrays.items()}  # fmt: skip


#: Minimum reliability for a corrected correlation; below it, a measure is mostly noise.
LEAST_RELIABLE = 0.3


class Agreement(NamedTuple):
    """Spearman's rank correlation of two measures over all heads, or NaN if one is constant."""

    r: float
    low: float  # 95% interval over heads
    high: float
    #: corrected for both reliabilities, -1 to 1; NaN if one is unknown or below `LEAST_RELIABLE`
    corrected: float


def agreement(
    measures: Mapping[str, Mapping[AttentionKind, Floats]],
    reliability: Mapping[str, float] = MappingProxyType({}),
) -> dict[tuple[str, str], Agreement]:
    """Return the rank agreement of each pair of measures."""
    joined = {
        name: np.concatenate([grid.ravel() for grid in grids.values()])
        for name, grids in measures.items()
    }
    agreements = {}
    for pair in itertools.combinations(joined, 2):
        one, other = (joined[name] for name in pair)
        both = [reliability.get(name, 0) for name in pair]
        r, corrected = rank_correlation(one, other), math.nan
        if min(both) >= LEAST_RELIABLE:
            corrected = max(-1.0, min(1.0, r / math.sqrt(math.prod(both))))
        agreements[pair] = Agreement(r, *rank_interval(r, len(one)), corrected)
    return agreements
