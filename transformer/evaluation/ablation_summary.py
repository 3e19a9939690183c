"""Table 3 from this project's runs: means, spread over seeds, and the paper's directions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean, stdev, variance
from typing import Literal

import numpy as np

from transformer.evaluation.ablations import VARIATIONS, Results, Run, Variation
from transformer.measures.significance import holm, student_sf

Verdict = Literal[
    "same direction, significant", "other direction", "no direction in the paper",
    "too close to tell", "not run",
]  # fmt: skip

#: Probability that any of all verdicts finds a direction where there is none.
LEVEL = 0.05

#: By measure, one unit in the paper's last digit; a smaller difference has no direction.
_UNIT = {"nll": math.log(4.92 / 4.91), "bleu": 0.1}


@dataclass(frozen=True)
class Figure:
    """A measure of one row; this project's values are NaN if the row was not run."""

    mean: float  # over seeds
    spread: float  # standard deviation over seeds, NaN for fewer than two
    difference: float  # mean minus the base row's mean
    #: half the width of its 95% interval over seeds, by Welch's t; NaN if no row has two runs
    reach: float
    theirs: float  # the paper's difference from its base
    #: probability of such a difference by chance, by the same t, corrected by Holm (1979) for all
    #: comparisons in the table
    chance: float
    verdict: Verdict


@dataclass(frozen=True)
class Line:
    """A row of the table."""

    variation: Variation
    seeds: tuple[int, ...]  # one per run
    parameters: int | None  # per run; None if not run
    figures: Mapping[str, Figure]  # "nll" in nats per piece and "bleu", cased

    def cells(self, measure: str) -> list[str]:
        """Return the cells: parameters, runs, our value, the paper's, and the verdict."""
        figure, published, n = self.figures[measure], self.variation.published, len(self.seeds)
        if measure == "nll":
            ours, theirs, digits = f"{math.exp(figure.mean):.2f}", f"{published.perplexity:.2f}", 3
        else:
            spread = f" ± {figure.spread:.1f}" if n > 1 else ""
            ours, theirs, digits = f"{figure.mean:.1f}{spread}", f"{published.bleu:.1f}", 1
        here, there = (
            f"{round(value, digits) + 0.0:+.{digits}f}".replace("-", "−")
            for value in (figure.difference, figure.theirs)
        )
        verdict = f"{figure.verdict}: {here} here, {there} there" if n else figure.verdict
        if self.variation.group == "base":
            verdict = ""
        parameters = f"{self.parameters / 1e6:.2f}M" if self.parameters else "–"
        return [parameters, str(n), ours if n else "–", theirs, verdict]


def table(results: Results) -> list[Line]:
    """Return one line per row of table 3 from the comparable runs, also for missing rows."""
    results = results.comparable
    runs = [results.row(variation.name) for variation in VARIATIONS]
    figures = {measure: _figures(results, measure) for measure in _UNIT}
    compared = [(measure, i) for measure in figures for i in range(1, len(runs)) if runs[i]]
    chances = holm(np.array([figures[measure][i].chance for measure, i in compared]))
    for (measure, i), chance in zip(compared, chances, strict=True):
        figure = replace(figures[measure][i], chance=float(chance))
        figures[measure][i] = replace(figure, verdict=_verdict(figure, _UNIT[measure]))
    lines = []
    for i, (variation, row) in enumerate(zip(VARIATIONS, runs, strict=True)):
        seeds, parameters = tuple(run.seed for run in row), row[0].parameters if row else None
        lines.append(
            Line(variation, seeds, parameters, {name: figures[name][i] for name in figures})
        )
    return lines


def caveats(results: Results, lines: Sequence[Line]) -> str:
    """Return sentences on the limits of the verdicts."""
    n, n_runs = len(_UNIT) * sum(bool(line.seeds) for line in lines[1:]), len(results.runs)
    left = n_runs - len(results.comparable.runs)
    text = (
        f"Holm's correction keeps the chance of any false verdict among all {n}, of perplexity and "
        f"BLEU, at {LEVEL:.0%}. Significant means over seeds only: other text, another base model "
        "or longer training may differ."
    )
    shift = [hardware_effect(results.comparable, measure)[0] for measure in _UNIT]
    if any(shift):
        text += (
            f" The mean effect of a GPU is taken out: {shift[0]:+.4f} nats, {shift[1]:+.2f} BLEU."
        )
    others = "Left out, in another precision or cut into other tokens:"
    return f"{text} {others} {left} of {n_runs} runs." if left else text


def hardware_effect(results: Results, measure: str) -> tuple[float, float]:
    """Return the mean effect of a GPU on a measure, fitted beside the rows, and its standard error.

    Both are 0 if each row ran on one kind of hardware.
    """
    rows = [row for variation in VARIATIONS if (row := results.row(variation.name))]
    values = np.array([getattr(run, measure) - _mean([getattr(other, measure) for other in row])
                       for row in rows for run in row])  # fmt: skip
    gpus = np.array([_on_gpu(run) - _mean(list(map(_on_gpu, row))) for row in rows for run in row])
    total = float(gpus @ gpus)
    if not total:
        return 0.0, 0.0
    effect = float(gpus @ values) / total
    left = values - effect * gpus
    freedom = max(1, len(values) - len(rows) - 1)
    return effect, math.sqrt(float(left @ left) / freedom / total)


def _on_gpu(run: Run) -> float:
    return float("CPU" not in run.hardware)


def _figures(results: Results, measure: str) -> list[Figure]:
    """Return the figures of all rows with uncorrected chances and without verdicts.

    Means hold for the hardware of the base row. Differences are tested by Welch's t; a row with one
    run has the variance of all rows.
    """
    runs = [results.row(variation.name) for variation in VARIATIONS]
    effect, error_of_effect = hardware_effect(results, measure)
    gpus = [_mean([_on_gpu(run) for run in row]) for row in runs]
    rows = [
        [getattr(run, measure) - effect * (_on_gpu(run) - gpus[0]) for run in row] for row in runs
    ]
    freedom = sum(len(row) - 1 for row in rows if row)
    squares = sum((value - _mean(row)) ** 2 for row in rows for value in row)
    pooled = squares / freedom if freedom else math.nan
    figures = []
    for variation, row, gpu in zip(VARIATIONS, rows, gpus, strict=True):
        theirs, start = variation.published, VARIATIONS[0].published
        published = theirs.bleu - start.bleu
        if measure == "nll":
            published = math.log(theirs.perplexity / start.perplexity)
        ours, error, degrees = _mean(row) - _mean(rows[0]), math.nan, 0.0
        if row and rows[0] and freedom:
            parts = [
                (variance(of) / len(of), len(of) - 1) if len(of) > 1 else (pooled, freedom)
                for of in (row, rows[0])
            ]
            parts.append((((gpu - gpus[0]) * error_of_effect) ** 2, max(1, freedom - 1)))
            error, degrees = _welch(parts)
        figures.append(
            Figure(
                _mean(row), stdev(row) if len(row) > 1 else math.nan, ours,
                student(degrees) * error, published,
                outside(ours / error if error else math.inf if ours else 0.0, degrees),
                "too close to tell" if row else "not run",
            )
        )  # fmt: skip
    return figures


def _welch(parts: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the standard error of a sum, and its degrees of freedom by Satterthwaite.

    Args: parts: the variance of each mean, and the degrees of freedom of that variance.
    """
    total = sum(part for part, _ in parts)
    spread = sum(part**2 / degrees for part, degrees in parts if part)
    return math.sqrt(total), total**2 / spread if spread else max(d for _, d in parts)


def outside(t: float, freedom: float) -> float:
    """Return the probability that Student's distribution lies beyond t in either direction.

    NaN for less than one degree of freedom.
    """
    if freedom < 1:
        return math.nan
    return 2 * float(student_sf(np.array([abs(t)]), np.array([freedom]))[0])


@cache
def student(freedom: float) -> float:
    """Return the t at which `outside` is 5%, or NaN for 0 degrees of freedom."""
    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if outside(middle, freedom) > 0.05 else (low, middle)
    return low if freedom else math.nan


def _verdict(figure: Figure, unit: float) -> Verdict:
    if not figure.chance <= LEVEL:  # NaN too
        return "too close to tell"
    if abs(figure.theirs) <= unit * (1 + 1e-9):
        return "no direction in the paper"
    same = (figure.difference > 0) == (figure.theirs > 0)
    return "same direction, significant" if same else "other direction"


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else math.nan
