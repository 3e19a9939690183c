"""Pruning with BLEU, against plain edits."""

import itertools

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from tests.tiny_models import SENTENCES, uneven_model
from transformer.evaluation.pruning import (
    PrunedText,
    Pruning,
    corpus_bleu,
    own_translation,
    prune,
    typed,
)
from transformer.text.tokenizer import Tokenizer
from transformer.trace.removals import heads_of, log_probs
from transformer.translator import Translator


@pytest.fixture(scope="module")
def translator(tiny_tokenizer: Tokenizer) -> Translator:
    return Translator(uneven_model(tiny_tokenizer), tiny_tokenizer, device="cpu")


@pytest.fixture(scope="module")
def text(translator: Translator) -> PrunedText:
    pairs = [translator.pair(*each) for each in zip(SENTENCES[:3], SENTENCES[3:6], strict=True)]
    return PrunedText(tuple(pairs), tuple(SENTENCES[3:6]))


@pytest.fixture(scope="module")
def whole(translator: Translator, text: PrunedText) -> list[Pruning]:
    return list(prune(translator, text))


def test_values_are_those_of_the_edited_models(
    translator: Translator, text: PrunedText, whole: list[Pruning]
) -> None:
    last = whole[-1]
    assert last.done and not whole[-2].done
    assert (
        set(last.order) == set(heads_of(translator.model.config.head_shapes))
        and len(whole) == len(last.order) + 1
    )
    marks = last.marks
    assert marks[0] == 0 and marks[-1] == len(last.order) and len(last.bleu) == len(marks)
    n = marks[3]
    other = translator.edited(*(head.off for head in last.order[:n]))
    traces = [translator.trace(*each) for each in zip(SENTENCES[:3], SENTENCES[3:6], strict=True)]
    sums = sum(log_probs(other.model, each).sum() for each in traces)
    tokens = sum(len(each.predicted_ids) for each in traces)
    assert last.log_probs[n] == pytest.approx(sums / tokens, abs=1e-5)
    found = [each.text for each in other.translate(SENTENCES[:3], 1)]
    assert last.bleu[3] == pytest.approx(BLEU().corpus_score(found, [list(SENTENCES[3:6])]).score)
    values = last.random_values
    assert values.shape == (len(marks), 3, 2)
    for mark, k in ((0, 0), (-1, len(last.order))):  # the same heads in any order
        assert np.allclose(values[mark, :, 0], last.log_probs[k])
        assert np.allclose(values[mark, :, 1], last.bleu[mark])
    drops = last.log_probs[0] - last.log_probs
    n_harmless = last.harmless(0.01)
    assert (drops[: n_harmless + 1] < 0.01).all()
    assert n_harmless == len(last.order) or drops[n_harmless + 1] >= 0.01


def test_bleu_is_that_of_sacrebleu(translator: Translator) -> None:
    texts = [*typed(translator, "en", "de").references, "Um 3.5-mal, $5 & 20,000 (ca.) [x]/y."]
    rng = np.random.default_rng(5)
    for drop in (0.0, 0.2, 0.6, 0.95):
        shorter = [
            " ".join(word for word in text.split() if rng.random() >= drop) for text in texts
        ]
        expected = BLEU().corpus_score(shorter, [texts]).score
        assert corpus_bleu(shorter, texts) == pytest.approx(expected, abs=1e-6)
    for one, other in (("a b c d x", "a b c d e"), ("a x b y c", "a b c d"), ("", "a"), ("q", "a")):
        expected = BLEU().corpus_score([one], [[other]]).score
        assert corpus_bleu([one], [other]) == pytest.approx(expected, abs=1e-6)


def test_it_goes_on_after_a_stop(
    translator: Translator, text: PrunedText, whole: list[Pruning]
) -> None:
    for n in (1, 6):
        rest = list(prune(translator, text, whole[n - 1]))
        assert len(rest) == len(whole) - n
        assert rest[-1].order == whole[-1].order and rest[-1].bleu == whole[-1].bleu
        assert rest[-1].at_random == whole[-1].at_random

    class StopError(Exception):
        pass

    calls = itertools.count()

    def stop(done: int, most: int) -> None:
        assert 0 <= done <= most == len(whole) - 1
        if next(calls) == 4:
            raise StopError

    with pytest.raises(StopError):
        list(prune(translator, text, progress=stop))


def test_a_sentence_starts_at_its_own_translation(translator: Translator) -> None:
    trace = translator.trace(SENTENCES[0], beam_size=3)
    first = next(prune(translator, own_translation(translator, trace)))
    assert first.log_probs[0] == pytest.approx(trace.log_probs.mean(), abs=1e-5)
    assert first.bleu[0] == pytest.approx(100) or len(trace.text.split()) < 4
