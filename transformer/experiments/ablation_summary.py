"""Table 3 from our runs: means, spread over seeds, and agreement with the paper."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev
from typing import Literal

from transformer.experiments.ablations import VARIATIONS, Published, Results, Variation

Verdict = Literal["agrees", "differs", "too close to tell", "not run"]

#: The paper's differences to base of at most one unit in the last digit count as none.
_SAME = {"nll": math.log(4.93 / 4.92), "bleu": 0.1}

#: Student's t that is exceeded in neither direction with 95% probability, for 1 to 10 degrees of
#: freedom.
_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


@dataclass(frozen=True)
class Figure:
    """A measure of one row."""

    mean: float  # over seeds
    spread: float  # standard deviation over seeds, NaN for fewer than two
    difference: float  # of the mean from that of base
    #: half the width of its 95% interval, by Student's t, from the spread over seeds pooled over
    #: all rows; NaN if no row has two
    reach: float
    theirs: float  # the paper's difference from its base
    verdict: Verdict  # whether ours has the paper's direction


@dataclass(frozen=True)
class Line:
    """A row of the table."""

    variation: Variation
    seeds: tuple[int, ...]  # of its runs
    parameters: int | None  # of each; None if not run
    nll: Figure | None  # in nats per piece
    bleu: Figure | None  # cased. Both None if not run.


def table(results: Results) -> list[Line]:
    """Return one line for every row of table 3, whether run or not."""
    lines = []
    for each in VARIATIONS:
        runs = results.row(each.name)
        nll = _figure(each, results, "nll", lambda row: math.log(row.perplexity)) if runs else None
        bleu = _figure(each, results, "bleu", lambda row: row.bleu) if runs else None
        seeds = tuple(run.seed for run in runs)
        lines.append(Line(each, seeds, runs[0].parameters if runs else None, nll, bleu))
    return lines


def _figure(
    variation: Variation,
    results: Results,
    measure: Literal["nll", "bleu"],
    theirs: Callable[[Published], float],
) -> Figure:
    by_row = {
        each.name: [getattr(run, measure) for run in results.row(each.name)] for each in VARIATIONS
    }
    values, base = by_row[variation.name], by_row["base"]
    difference = _mean(values) - _mean(base)
    reach = math.nan
    if base:
        error, freedom = _pooled(list(by_row.values()))
        reach = student(freedom) * error * math.sqrt(1 / len(values) + 1 / len(base))
    published = theirs(variation.published) - theirs(VARIATIONS[0].published)
    return Figure(
        _mean(values),
        stdev(values) if len(values) > 1 else math.nan,
        difference,
        reach,
        published,
        _verdict(difference, reach, published, _SAME[measure]),
    )


def student(freedom: int) -> float:
    """Return the t that Student's distribution exceeds in neither direction with 95% probability.

    Exact to three decimals; NaN without a degree of freedom. From 11 on it is the expansion of
    Cornish and Fisher around the normal quantile (Abramowitz and Stegun, 26.7.5).
    """
    if freedom < 1:
        return math.nan
    if freedom <= len(_STUDENT):
        return _STUDENT[freedom - 1]
    z = NormalDist().inv_cdf(0.975)
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )


def _verdict(ours: float, reach: float, theirs: float, same: float) -> Verdict:
    """Compare directions; a small difference of ours agrees only with none of the paper's."""
    if math.isnan(reach):
        return "too close to tell"
    clear = abs(ours) > reach
    if abs(theirs) <= same * (1 + 1e-9):
        return "differs" if clear else "agrees"
    if not clear:
        return "too close to tell"
    return "agrees" if (ours > 0) == (theirs > 0) else "differs"


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else math.nan


def _pooled(rows: Sequence[Sequence[float]]) -> tuple[float, int]:
    """Return the standard deviation within rows, pooled, and its degrees of freedom.

    NaN and 0 if no row has two values.
    """
    freedom = sum(len(row) - 1 for row in rows if row)
    squares = sum((each - _mean(row)) ** 2 for row in rows for each in row)
    return (math.sqrt(squares / freedom) if freedom else math.nan), freedom
