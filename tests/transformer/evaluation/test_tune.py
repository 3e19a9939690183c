"""Intervals by resampling, and the default decoding that follows from them."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU

from transformer.evaluation import tune
from transformer.search.decoding import PAPER_DECODING, Decoding, default_decoding
from transformer.translator import Translator

WORDS = ["ein", "Hund", "rennt", "schnell", ".", "und", "die", "Katze", "schläft", "Nicht", "zwei,"]
sentences = st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)
corpora = st.lists(st.tuples(sentences, sentences), min_size=1, max_size=8)


@given(corpora)
@settings(max_examples=15, deadline=None)
def test_statistics_of_sentences_add_up_to_sacrebleus_corpus(pairs: list[tuple[str, str]]) -> None:
    hypotheses, references = [h for h, _ in pairs], [r for _, r in pairs]
    total = tune.sentence_statistics(hypotheses, references).sum(axis=0)
    whole = BLEU().corpus_score(hypotheses, [references])
    assert total.tolist() == [whole.sys_len, whole.ref_len, *whole.counts, *whole.totals]
    assert tune.bleu_of(total) == whole.score


def test_intervals_tell_a_better_system_from_an_equal_one() -> None:
    rng = np.random.default_rng(1)
    words = [rng.choice(WORDS, size=8).tolist() for _ in range(200)]

    def noisy(share: float) -> list[str]:
        """Return references with a share of their words replaced."""
        return [" ".join("x" if rng.random() < share else each for each in line) for line in words]

    lines = noisy(0)
    rows = [tune.sentence_statistics(noisy(share), lines) for share in (0.2, 0.2, 0.1, 0.3)]
    observed = [tune.bleu_of(each.sum(axis=0)) for each in rows]
    scores = tune.resampled([*rows, rows[0]], range(200), resamples=200, seed=7)
    assert (scores[:, 0] == scores[:, 4]).all()
    assert (scores[:, :1] == tune.resampled(rows[:1], range(200), resamples=200, seed=7)).all()
    assert (scores[:, :1] != tune.resampled(rows[:1], range(200), resamples=200, seed=8)).any()
    same, equal, better, worse = tune.differences(scores[:, :4], observed, 0)
    assert same == tune.Difference(0, 0, 0)
    assert equal.low < 0 < equal.high and better.low > 0 > worse.high
    # One interval for many systems is no narrower than one for a single system.
    alone = tune.differences(scores[:, [0, 2]], [observed[0], observed[2]], 0)[1]
    assert alone.low >= better.low
    assert alone.value == better.value
    # Sentences of one group are drawn together.
    one = tune.resampled([rows[0][:2]], ["one source", "one source"], resamples=5)
    assert set(one[:, 0]) == {tune.bleu_of(rows[0][:2].sum(axis=0))}


def tuning(*trials: tuple[Decoding, float, float]) -> tune.Tuning:
    """Return trials with a score and the lower end of its interval."""
    records = [tune.Trial(how, bleu, tune.Difference(0, low, 1)) for how, bleu, low in trials]
    return tune.Tuning((tune.Trial(PAPER_DECODING, 30, tune.Difference(0, 0, 0)), *records), 9, 9)


def test_the_papers_setting_stays_or_the_least_departure_that_is_better_is_chosen() -> None:
    by_luck = tuning((Decoding(5, 1.8), 33, -0.01), (Decoding(1, 0.0), 20, -3))
    assert by_luck.chosen == PAPER_DECODING and by_luck.best == Decoding(5, 1.8)
    far, near = (Decoding(4, 1.8), 33.0, 0.5), (Decoding(4, 1.0), 31.0, 0.1)
    wide = (Decoding(5, 0.6), 34.0, 0.9)
    assert tuning(far, near, wide).chosen == Decoding(4, 1.0)
    assert tuning(far, wide).chosen == Decoding(4, 1.8)


def test_the_grid_holds_the_papers_setting_and_greedy_once() -> None:
    assert tune.grid([2], [1.0]) == [PAPER_DECODING, Decoding(2, 1.0)]
    settings = tune.grid()
    assert len(settings) == len(set(settings)) == 1 + (len(tune.BEAMS) - 1) * len(tune.ALPHAS)
    assert PAPER_DECODING in settings


def test_trials_are_of_what_the_model_translates(tiny_translator: Translator) -> None:
    pairs = [("A dog runs.", "Ein Hund."), ("A dog runs.", "Der Hund."), ("Two cats.", "Katzen.")]
    found = tune.tune(tiny_translator, pairs, tune.grid([1], [0.0]), resamples=10)
    assert [trial.decoding for trial in found.trials] == [PAPER_DECODING, Decoding(1, 0.0)]
    assert (found.sentences, found.sources) == (3, 2)
    for trial in found.trials:
        done = tiny_translator.translate([src for src, _ in pairs], trial.decoding.beam_size)
        whole = BLEU().corpus_score([each.text for each in done], [[tgt for _, tgt in pairs]])
        assert trial.bleu == pytest.approx(whole.score)


@pytest.mark.parametrize("record", [
    None, 5, {}, {"beam_size": 4}, {"beam_size": 0, "alpha": 1}, {"beam_size": 2.5, "alpha": 1},
    {"beam_size": 4, "alpha": "high"}, {"beam_size": 4, "alpha": float("nan")},
    {"beam_size": True, "alpha": 1.0}, {"beam_size": 10**9, "alpha": 1.0},
])  # fmt: skip
def test_a_record_that_says_nothing_leaves_the_papers_decoding(record: object) -> None:
    assert default_decoding({"default_decoding": record}) == PAPER_DECODING
    assert default_decoding({}) == PAPER_DECODING == Decoding(4, 0.6)


def test_a_translator_decodes_by_the_record(tiny_checkpoint: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_checkpoint, tmp_path / "copy"))
    path = folder / "metrics.json"
    path.write_text(json.dumps({"default_decoding": {"beam_size": 2, "alpha": 1.5}}))
    translator = Translator.load(folder, "cpu")
    for alpha, used in ((None, 1.5), (0.5, 0.5)):
        search = translator.trace("A dog runs.", alpha=alpha).search
        assert search is not None and (search.beam_size, search.alpha) == (2, used)
    assert translator.translate(["A dog."]) == translator.translate(["A dog."], 2, 1.5)
    path.unlink()
    assert Translator.load(folder, "cpu").decoding == PAPER_DECODING
