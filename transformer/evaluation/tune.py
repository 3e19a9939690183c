"""Choose a checkpoint's default decoding on the validation text (section 6.1).

Every setting of a grid is compared with the paper's, which is kept unless the interval of another
setting's difference lies above 0. Of those, the one closest to the paper's is chosen rather than
the best: the highest score of many is partly luck.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from transformer.evaluation.bootstrap import (
    Difference,
    bleu_of,
    differences,
    resampled,
    sentence_statistics,
)
from transformer.search.decoding import PAPER_DECODING, Decoding
from transformer.search.inputs import checked_alpha, checked_beam
from transformer.training.data import Pair
from transformer.translator import Translator

#: The grid. Alpha has no effect on greedy decoding.
BEAMS = (1, 4, 5, 8)
ALPHAS = (0.0, 0.3, 0.6, 1.0, 1.4, 1.8, 2.0)

RESAMPLES, SEED, CONFIDENCE = 2000, 0, 0.95


@dataclass(frozen=True)
class Trial:
    """One setting on the validation text: its cased sacreBLEU and the difference to the paper's.

    Attributes:
        decoding: the setting.  bleu: its score.
        difference: to the paper's setting, with a simultaneous confidence interval.
    """

    decoding: Decoding
    bleu: float
    difference: Difference

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
    """The settings tried on the validation text, and the resulting choice.

    Attributes:
        trials: one per setting, including the paper's.
        sentences, sources: numbers of validation pairs, and of distinct sources.
    """

    trials: tuple[Trial, ...]
    sentences: int
    sources: int

    @property
    def chosen(self) -> Decoding:
        """The default decoding supported by the validation text."""
        better = [trial.decoding for trial in self.trials if trial.difference.low > 0]
        return min(better, key=_departure, default=PAPER_DECODING)

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


def _departure(decoding: Decoding) -> tuple[float, float]:
    """Return the distance to the paper's setting: by beam size, which costs time, then alpha."""
    beam, alpha = PAPER_DECODING.beam_size, PAPER_DECODING.alpha
    return abs(decoding.beam_size - beam), abs(decoding.alpha - alpha)


def grid(beams: Sequence[int] = BEAMS, alphas: Sequence[float] = ALPHAS) -> list[Decoding]:
    """Return the settings to try, including the paper's. Raises `InputError`."""
    settings = [
        Decoding(checked_beam(beam), checked_alpha(alpha))
        for beam in beams
        for alpha in (alphas if beam > 1 else alphas[:1])
    ]
    return list(dict.fromkeys([PAPER_DECODING, *settings]))


def tune(
    translator: Translator,
    pairs: Sequence[Pair],
    settings: Sequence[Decoding] | None = None,
    *,
    resamples: int = RESAMPLES,
    on_tried: Callable[[int, int], None] | None = None,
) -> Tuning:
    """Try settings on the validation text.

    Args:
        settings: default `grid()`; must include the paper's.
        on_tried: called with (settings tried, total).
    """
    settings = grid() if settings is None else settings
    sources, references = [src for src, _ in pairs], [tgt for _, tgt in pairs]
    unique = list(dict.fromkeys(sources))
    statistics = []
    for count, how in enumerate(settings, 1):
        done = translator.translate(unique, how.beam_size, how.alpha)
        texts = {src: each.text for src, each in zip(unique, done, strict=True)}
        statistics.append(sentence_statistics([texts[src] for src in sources], references))
        if on_tried is not None:
            on_tried(count, len(settings))
    scores = [bleu_of(each.sum(axis=0)) for each in statistics]
    drawn = resampled(statistics, sources, resamples=resamples, seed=SEED)
    compared = differences(drawn, scores, settings.index(PAPER_DECODING), confidence=CONFIDENCE)
    trials = map(Trial, settings, scores, compared)
    return Tuning(tuple(trials), len(pairs), len(unique))
