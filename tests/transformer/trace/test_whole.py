import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.tiny_models import CONFIGS, random_model
from transformer.text.tokenizer import Tokenizer
from transformer.trace import whole
from transformer.trace.inspection import inspect_head
from transformer.trace.stream import read_feed_forward
from transformer.trace.whole import record_whole
from transformer.translator import Translator
from transformer.types import ATTENTION_KINDS

SENTENCE = "The cat sat on the mat."


@pytest.fixture(params=CONFIGS)
def translator(request: pytest.FixtureRequest, tiny_tokenizer: Tokenizer) -> Translator:
    size = tiny_tokenizer.vocab_size
    config = CONFIGS[request.param].replace(vocab_size=size, tgt_vocab_size=None, max_positions=60)
    return Translator(random_model(config), tiny_tokenizer, device="cpu", name="random")


def test_every_value_is_that_of_the_single_readings(translator: Translator) -> None:
    trace = translator.trace(SENTENCE, target="Die Katze saß.")
    assert len(trace.src_ids) != len(trace.tgt_ids)
    made = record_whole(translator.model, translator.tokenizer.target, trace)
    rng = np.random.default_rng(0)
    for kind in ATTENTION_KINDS:
        assert not made.held[kind].any()
        for _ in range(3):
            layer, head, query = (int(rng.integers(n)) for n in trace.attention(kind).shape[:3])
            stages = inspect_head(translator.model, trace, kind, layer, head, query)
            assert_allclose(made.q[kind][layer, head, query], stages.q, rtol=1e-5, atol=1e-6)
            assert_allclose(made.k[kind][layer, head], stages.keys, rtol=1e-5, atol=1e-6)
            assert_allclose(made.v[kind][layer, head], stages.values, rtol=1e-5, atol=1e-6)
            length = np.linalg.norm(stages.scaled.contribution)
            assert_allclose(made.head_norms[kind][layer, head, query], length, rtol=1e-4)
            if stages.relative is not None and kind in made.relative:
                relative = made.relative[kind][layer, head, query]
                assert_allclose(relative, stages.relative, rtol=1e-3, atol=1e-4)
    assert bool(made.relative) == (translator.config.positions == "relative")
    positions = made.stream.decoder.entering - made.content["decoder"]
    if translator.config.positions == "relative":
        assert_allclose(positions, 0)
    else:
        assert np.abs(positions).max() > 0.01


def test_words_are_those_of_the_networks_and_neurons(translator: Translator) -> None:
    trace = translator.trace(SENTENCE, target="Die Katze saß.")
    made = record_whole(translator.model, translator.tokenizer.target, trace)
    heads = 2 * translator.config.decoder_heads
    for layer in range(translator.config.n_decoder_layers):
        reading = read_feed_forward(
            translator.model, translator.tokenizer.target, made.stream, "decoder", layer, 2,
            n_tokens=translator.tokenizer.target.vocab_size,
        )  # fmt: skip
        assert reading.promoted is not None
        count = made.words.shape[-1]
        words = [made.tokens[at] for at in made.words[layer, 2, heads]]
        assert words == list(reading.promoted.tokens[:count])
        assert_allclose(made.logits[layer, 2, heads], reading.promoted.logits[:count], rtol=1e-4)
        own = reading.promoted.logits[reading.promoted.ids == trace.predicted_ids[2]]
        assert_allclose(made.own[layer, 2, -1:], own, rtol=1e-4, atol=1e-5)
        assert made.neurons["decoder"][layer, 2].tolist() == reading.neurons[:8].tolist()
        for n, promoted in enumerate(reading.neuron_promoted[:8]):
            logits = made.logits[layer, 2, heads + 1 + n]
            assert_allclose(logits, promoted.logits[:count], rtol=1e-4, atol=1e-5)


def test_an_edited_model_shows_its_edits(tiny_translator: Translator) -> None:
    edited = tiny_translator.edited("off cross.1.2", "cut decoder.2.1 q2")
    made = record_whole(edited.model, edited.tokenizer.target, edited.trace(SENTENCE))
    assert not any(held.any() for held in made.held.values())
    assert_allclose(made.head_norms["cross"][0, 1], 0)
    assert_allclose(made.head_norms["decoder_self"][1, 0, 1], 0)
    assert made.head_norms["cross"][0, 0].all()


def test_long_texts_have_no_words(
    tiny_translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = tiny_translator.trace(SENTENCE)
    monkeypatch.setattr(whole, "MOST_READING", 1e3)
    made = record_whole(tiny_translator.model, tiny_translator.tokenizer.target, trace)
    assert made.words.shape[:3] == (3, len(trace.tgt_ids), 0) and made.tokens == ()
