"""Choose a checkpoint's default decoding on the validation text (section 6.1).

Every setting of a grid is compared with the paper's, which is kept unless the interval of another
setting's difference lies above `MARGIN`. Of those, the one closest to the paper's is chosen rather
than the best: the highest score of many is partly luck, and a smaller gain may be the text's own.

Intervals come from a paired bootstrap (Koehn 2004). BLEU is a function of ten sums over sentences,
so resampling needs no new translations. sacreBLEU's paired test gives p-values and an interval per
system, but neither an interval of the difference nor simultaneous intervals for many systems.
"""

from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU

from transformer.evaluation.scores import hypotheses_of
from transformer.search.inputs import checked_alpha, checked_beam
from transformer.search.request import PAPER_DECODING, Decoding
from transformer.training.data import Pair
from transformer.translator import Translator
from transformer.types import Report, no_report

RESAMPLES, SEED, CONFIDENCE = 2000, 0, 0.95
#: BLEU that a setting other than the paper's must gain, beyond chance.
MARGIN = 0.5


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
    """Return the statistics [n, 10] of each sentence, which add up to sacreBLEU's of the corpus."""
    bleu = BLEU()
    rows = np.zeros((len(hypotheses), N_STATISTICS), dtype=np.int64)
    for row, hypothesis, reference in zip(rows, hypotheses, references, strict=True):
        score = bleu.corpus_score([hypothesis], [[reference]])
        row[:] = (score.sys_len, score.ref_len, *score.counts, *score.totals)
    return rows


def bleu_of(sums: NDArray[np.integer]) -> float:
    """Return BLEU, 0 to 100, of statistics [10] summed over sentences, as sacreBLEU computes it."""
    sys_len, ref_len, *counts = (int(number) for number in sums)
    score = BLEU.compute_bleu(counts[:4], counts[4:], sys_len, ref_len, smooth_method="exp")
    return float(score.score)


def resampled(
    statistics: Sequence[Statistics], groups: Sequence[Hashable], *, resamples: int = 1000,
    seed: int = 0,
) -> NDArray[np.float64]:  # fmt: skip
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
    scores: NDArray[np.float64], observed: Sequence[float], baseline: int, *,
    confidence: float = 0.95,
) -> list[Difference]:  # fmt: skip
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
        Difference(float(difference), float(difference - width), float(difference + width))
        for difference, width in zip(value, half, strict=True)
    ]


@dataclass(frozen=True)
class Trial:
    """One setting on the validation text: its cased sacreBLEU and the difference to the paper's."""

    decoding: Decoding  # the setting
    bleu: float  # its score
    difference: Difference  # to the paper's setting, with a simultaneous confidence interval

    def to_dict(self) -> dict[str, Any]:
        """Return the trial for JSON."""
        low, high = self.difference.low, self.difference.high
        return asdict(self.decoding) | {
            "val_bleu": round(self.bleu, 4),
            "difference": round(self.difference.value, 4),
            "interval": [round(low, 4), round(high, 4)],
        }


@dataclass(frozen=True)
class Tuning:
    """The settings tried on the validation text, and the resulting choice."""

    trials: tuple[Trial, ...]  # one per setting, including the paper's
    #: sentences, sources: numbers of validation pairs, and of distinct sources
    sentences: int
    sources: int

    @property
    def chosen(self) -> Decoding:
        """The default decoding supported by the validation text."""
        better = [trial.decoding for trial in self.trials if trial.difference.low > MARGIN]
        beam, alpha = PAPER_DECODING.beam_size, PAPER_DECODING.alpha
        return min(  # departing least: first in beam size, which costs time
            better, key=lambda it: (abs(it.beam_size - beam), abs(it.alpha - alpha)),
            default=PAPER_DECODING,
        )  # fmt: skip

    @property
    def best(self) -> Decoding:
        """The setting with the highest BLEU, significant or not."""
        return max(self.trials, key=lambda trial: trial.bleu).decoding

    def to_dict(self) -> dict[str, Any]:
        """Return the record for metrics.json."""
        return {
            "sentences": self.sentences,
            "sources": self.sources,
            "compared_with": PAPER_DECODING.to_dict(),
            "resamples": RESAMPLES,
            "seed": SEED,
            "confidence": CONFIDENCE,
            "best": self.best.to_dict(),
            "trials": [trial.to_dict() for trial in self.trials],
        }


def grid(beams: Sequence[int], alphas: Sequence[float]) -> list[Decoding]:
    """Return the settings to try, including the paper's. Raises `InputError`.

    Alpha has no effect on greedy decoding.
    """
    settings = [
        Decoding(checked_beam(beam), checked_alpha(alpha))
        for beam in beams
        for alpha in (alphas if beam > 1 else alphas[:1])
    ]
    return list(dict.fromkeys([PAPER_DECODING, *settings]))


def tune(
    translator: Translator, pairs: Sequence[Pair], settings: Sequence[Decoding], *,
    resamples: int = RESAMPLES, on_tried: Report = no_report,
) -> Tuning:  # fmt: skip
    """Try settings on the validation text.

    Args:
        settings: with the paper's, see `grid`.
        on_tried: called with (settings tried, total).
    """
    sources, references = [src for src, _ in pairs], [tgt for _, tgt in pairs]
    statistics = []
    for count, how in enumerate(settings, 1):
        texts = hypotheses_of(translator, pairs, how)
        statistics.append(sentence_statistics(texts, references))
        on_tried(count, len(settings))
    scores = [bleu_of(rows.sum(axis=0)) for rows in statistics]
    drawn = resampled(statistics, sources, resamples=resamples, seed=SEED)
    compared = differences(drawn, scores, settings.index(PAPER_DECODING), confidence=CONFIDENCE)
    return Tuning(tuple(map(Trial, settings, scores, compared)), len(pairs), len({*sources}))
