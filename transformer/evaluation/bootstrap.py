"""Confidence intervals of BLEU differences, by bootstrap resampling (Koehn 2004).

BLEU is a function of ten sums over sentences, so resampling needs no new translations. All settings
are scored on the same resamples. sacreBLEU's paired test gives p-values and an interval per system,
but neither an interval of the difference nor simultaneous intervals for many systems.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU

#: Components of BLEU: both lengths, then matched and total n-grams of 1 to 4 tokens.
N_STATISTICS = 10

Statistics = NDArray[np.int64]


@dataclass(frozen=True)
class Difference:
    """A difference in BLEU to the baseline, with its confidence interval."""

    value: float
    low: float
    high: float


def sentence_statistics(hypotheses: Sequence[str], references: Sequence[str]) -> Statistics:
    """Return the statistics [n, 10] of each sentence; their sum is that of sacreBLEU's corpus."""
    bleu = BLEU()
    rows = np.zeros((len(hypotheses), N_STATISTICS), dtype=np.int64)
    for row, hypothesis, reference in zip(rows, hypotheses, references, strict=True):
        score = bleu.corpus_score([hypothesis], [[reference]])
        row[:] = (score.sys_len, score.ref_len, *score.counts, *score.totals)
    return rows


def bleu_of(sums: NDArray[np.integer]) -> float:
    """Return BLEU, 0 to 100, of statistics [10] summed over sentences, as sacreBLEU computes it."""
    sys_len, ref_len, *counts = (int(each) for each in sums)
    score = BLEU.compute_bleu(counts[:4], counts[4:], sys_len, ref_len, smooth_method="exp")
    return float(score.score)


def resampled(
    statistics: Sequence[Statistics],
    groups: Sequence[Hashable],
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Score every system on the same resamples of the sentences, drawn with replacement.

    Args:
        statistics: [n, 10] for each of K systems.
        groups: one per sentence; sentences of a group, such as one source, are drawn together.

    Returns: BLEU [resamples, K].
    """
    index = {group: place for place, group in enumerate(dict.fromkeys(groups))}
    places = np.array([index[group] for group in groups])
    rng = np.random.default_rng(seed)
    n = len(index)
    times = rng.multinomial(n, np.full(n, 1 / n), size=resamples)  # [resamples, groups]
    scores = np.empty((resamples, len(statistics)))
    for system, rows in enumerate(statistics):
        grouped = np.zeros((n, N_STATISTICS), dtype=np.int64)
        np.add.at(grouped, places, rows)
        scores[:, system] = [bleu_of(sums) for sums in times @ grouped]
    return scores


def differences(
    scores: NDArray[np.float64],
    observed: Sequence[float],
    baseline: int,
    *,
    confidence: float = 0.95,
) -> list[Difference]:
    """Compare every system with a baseline.

    The intervals are simultaneous: their half-width is the quantile, over resamples, of the largest
    deviation of any system's difference, in that system's standard errors. They widen with the
    number of systems, so that the best of many does not win by luck alone.

    Args:
        scores: BLEU [resamples, K] of `resampled`.  observed: BLEU of each system, not resampled.
        baseline: index of the baseline; its own difference is 0, with zero width.
    """
    value = np.asarray(observed) - observed[baseline]  # [K]
    drawn = scores - scores[:, [baseline]]  # [resamples, K]
    error = drawn.std(axis=0)
    varies = error > 0
    half = np.zeros_like(value)
    if varies.any():
        deviation = np.abs(drawn - drawn.mean(axis=0))[:, varies] / error[varies]
        half[varies] = np.quantile(deviation.max(axis=1), confidence) * error[varies]
    return [
        Difference(float(each), float(each - width), float(each + width))
        for each, width in zip(value, half, strict=True)
    ]
