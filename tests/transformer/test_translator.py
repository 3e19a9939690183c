from typing import Any

import numpy as np
import pytest
import torch

from tests.tiny_models import SENTENCES, SMALL, random_model
from tests.transformer.conftest import check_trace
from transformer.config import ModelConfig
from transformer.device import available_devices
from transformer.measures.beam import beam_tree
from transformer.model import Transformer
from transformer.search.rules import PAPER, Sampling, hugging_face
from transformer.text.marks import is_unknown
from transformer.text.tokenizer import Tokenizer, clean, train_tokenizer
from transformer.trace.records import Trace
from transformer.translator import Translator
from transformer.types import ATTENTION_KINDS, CheckpointError, InputError

ANIMAL = SENTENCES[0]
NASTY = [
    "🙂🙂", "שלום עולם", "\x00\x01\x02", "\ud800 lone \udfff", "<script>alert(1)</script>",
    "a\nb\tc\u2028d", "\ufeff\u200b", "$x$ *y* :red[z] <b>", "\U0010ffff\ufffe", "e\u0301" * 50,
]  # fmt: skip


def test_odd_text_is_translated_or_blank(tiny_translator: Translator) -> None:
    for blank in ("", "   ", "\n\t", "\x00", "\u2028 \u200b"):
        (empty,) = tiny_translator.translate([blank])
        assert (empty.text, empty.tokens, empty.log_probs, empty.complete) == ("", (), (), True)
        assert tiny_translator.tokenize(blank).ids == ()
        with pytest.raises(InputError, match="blank"):
            tiny_translator.trace(blank)
    assert tiny_translator.translate([]) == []
    done: list[tuple[int, int]] = []
    found = tiny_translator.translate(
        NASTY, beam_size=2, max_length=5, on_translated=lambda *at: done.append(at)
    )
    assert done[-1] == (len(NASTY), len(NASTY))
    for text, translation in zip(NASTY, found, strict=True):
        source = tiny_translator.read(text)
        assert bool(translation.text) <= bool(clean(text))
        for shown in (source.text, *source.pieces, translation.text, *translation.tokens):
            shown.encode()  # can be shown


def test_unknown_characters_are_reported(tiny_translator: Translator) -> None:
    (translation,) = tiny_translator.translate(["A 🙂 dog"], max_length=3)
    assert translation.unknown == ("🙂",)
    trace = tiny_translator.trace("A 🙂 dog", max_length=3)
    assert [trace.src_tokens[position] for position in trace.src_unknown] == ["⁇🙂"]
    assert trace.translation.unknown == ("🙂",)
    for given in ({"target": "A 🙂 ⁇ dog 漢"}, {"prefix": "A 🙂 ⁇ dog 漢", "max_length": 20}):
        trace = tiny_translator.trace("A dog", **given)
        named = [piece for piece in trace.predicted_tokens if is_unknown(piece)]
        assert [piece.removeprefix("▁") for piece in named] == ["⁇🙂", "⁇??", "⁇漢"]
        assert trace.tgt_tokens[1:] == trace.predicted_tokens[:-1]
    (translation,) = tiny_translator.translate(["A dog"], **given)
    tree = beam_tree(tiny_translator.trace("A dog", **given))
    assert translation.tokens == trace.translation.tokens
    for tokens in ([node.token for node in tree.prefix(index)] for index in tree.leaves):
        assert tuple(tokens[: tree.n_forced]) == trace.predicted_tokens[: tree.n_forced]
    assert tiny_translator.translate([ANIMAL], max_length=3)[0].unknown == ()
    # Characters spelled in bytes are reported once each.
    tokenizer = train_tokenizer(SENTENCES, 370, byte_fallback=True)
    translator = Translator(small_model(370), tokenizer, device="cpu")
    (translation,) = translator.translate(["A 🙂🙃 dog λ"], max_length=2)
    assert translation.unknown == ("🙂", "🙃", "λ")


def small_model(vocab_size: int, **changed: Any) -> Transformer:
    return random_model(SMALL.replace(vocab_size=vocab_size, **changed))


def test_too_much_text_is_refused(tiny_translator: Translator, tiny_tokenizer: Tokenizer) -> None:
    with pytest.raises(InputError, match=r"10,001 characters.*10,000"):
        tiny_translator.tokenize("a" * 10_001)
    with pytest.raises(InputError, match=r"tokens.*at most 512"):
        tiny_translator.translate(["dog " * 600])
    with pytest.raises(InputError, match=r"sentence 2: .*at most 512"):
        tiny_translator.translate(["A dog.", "dog " * 600])
    with pytest.raises(InputError, match="list"):
        tiny_translator.translate("A dog.")
    for target in ("dog " * 600, [5] * 512):
        with pytest.raises(InputError, match="at most 512"):
            tiny_translator.trace("A dog.", target=target)
    # Learned positions lower the limit.
    model = small_model(tiny_tokenizer.vocab_size, positions="learned", max_positions=20)
    translator = Translator(model, tiny_tokenizer, device="cpu")
    assert translator.max_tokens == 20 and len(translator.trace("A dog.").predicted_ids) <= 20
    with pytest.raises(InputError, match="at most 20"):
        translator.translate(["dog " * 20])


@pytest.mark.parametrize(("text", "options", "message"), [
    (ANIMAL, {"beam_size": 0}, "beam size 0 .* from 1 to 64"),
    (ANIMAL, {"alpha": -10.1}, "alpha -10.1 .* from -10 to 10"),
    (ANIMAL, {"max_length": 0}, "max_length 0"),
    (ANIMAL, {"prefix": [0]}, "prefix token 0 .* 0 to 109 without 0, 1, 2"),
    (ANIMAL, {"prefix": [5, 5], "max_length": 2}, "prefix has 2 tokens"),
    ([5, 0], {}, "source token 0 cannot be used; expected 0 to 109"),
    ([5, "x"], {}, "source token 'x' is not a whole number"),
    ([5] * 512, {}, "the sentence has 513 tokens"),
    (b"A dog.", {}, "ids, not bytes"),
    (np.array([4.0, 5.0]), {}, "source token .*4.0.* is not a whole number"),
    (torch.tensor([True, False]), {}, "is not a whole number"),
    (np.array([[4, 5]]), {}, "ids, not ndarray"),
])  # fmt: skip
def test_bad_input_is_named_and_what_is_allowed(
    tiny_translator: Translator, text: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        tiny_translator.translate([text], **options)
    with pytest.raises(InputError, match=message):
        tiny_translator.trace(text, **options)


def test_only_known_devices(tiny_translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert available_devices() == ("cpu",)
    for device in ("cuda", "tpu", "cuda:9", "", torch.device("meta")):
        with pytest.raises(InputError, match="auto, cpu"):
            Translator(tiny_translator.model, tiny_translator.tokenizer, device=device)
    for device in ("auto", torch.device("cpu"), torch.device("cpu", 0)):
        made = Translator(tiny_translator.model, tiny_translator.tokenizer, device=device)
        assert made.device == "cpu"


def check_translation(trace: Trace, config: ModelConfig) -> None:
    """Check the properties of every translator's trace."""
    check_trace(trace)
    le, ld, heads = config.n_encoder_layers, config.n_decoder_layers, config.n_heads
    assert [trace.attention(kind).shape[:2] for kind in ATTENTION_KINDS] == [
        (le, heads), (ld, heads), (ld, heads),
    ]  # fmt: skip
    assert trace.src_tokens[-1] == "</s>"
    assert trace.tgt_tokens == ("<s>", *trace.predicted_tokens[:-1])
    assert trace.tgt_ids[1:] == trace.predicted_ids[:-1]
    assert (trace.predicted_tokens[-1] == "</s>") == trace.complete


@pytest.mark.parametrize("beam", [1, 4])
def test_a_searched_trace_equals_teacher_forcing(tiny_translator: Translator, beam: int) -> None:
    lengths, config = set(), tiny_translator.config
    for sentence in SENTENCES[:5]:
        searched = tiny_translator.trace(sentence, beam_size=beam, top_k=5)
        check_translation(searched, config)
        assert searched.search is not None and not searched.forced
        (translation,) = tiny_translator.translate([sentence], beam_size=beam)
        assert searched.text == translation.text
        assert len(translation.tokens) == len(translation.ids)
        assert len(translation.log_probs) == len(translation.tokens) + translation.complete
        penalty = ((5 + len(translation.log_probs)) / 6) ** 0.6
        expected = sum(translation.log_probs) / penalty
        assert searched.score == pytest.approx(expected, abs=1e-4)
        assert translation.score == pytest.approx(expected, abs=1e-5)
        if beam == 1:  # it takes the most probable token
            for token, row in zip(searched.predicted_ids, searched.top_ids.tolist(), strict=True):
                assert token == next(each for each in row if each not in {0, 1, 3})
        if not searched.complete:
            continue
        lengths.add(len(searched.tgt_tokens))
        forced = tiny_translator.trace(sentence, target=searched.predicted_ids, top_k=5)
        check_translation(forced, config)
        assert forced.forced and forced.search is None
        assert forced.predicted_ids == searched.predicted_ids
        assert forced.score == pytest.approx(searched.score, abs=1e-4)
        for name in ("encoder_self", "decoder_self", "cross"):
            np.testing.assert_allclose(getattr(searched, name), getattr(forced, name), atol=1e-5)
        for name in ("log_probs", "top_log_probs", "entropy"):
            np.testing.assert_allclose(getattr(searched, name), getattr(forced, name), atol=1e-4)
    assert max(lengths) > 3 and len(lengths) > 1


def test_targets_are_text_and_options_exist(tiny_translator: Translator) -> None:
    trace = tiny_translator.trace(ANIMAL, target=SENTENCES[1])
    check_translation(trace, tiny_translator.config)
    assert trace.text == SENTENCES[1]
    for ask in (tiny_translator.translate, tiny_translator.traces, tiny_translator.trace):
        with pytest.raises(TypeError, match="'widht'"):
            ask([ANIMAL], widht=3)


def test_a_prefix_begins_the_translation(tiny_translator: Translator) -> None:
    ids = tiny_translator.tokenize("Das Tier").ids
    for prefix, options in (("Das Tier", {}), (ids, {"sampling": Sampling(seed=5)})):
        trace = tiny_translator.trace(ANIMAL, prefix=prefix, **options)
        check_translation(trace, tiny_translator.config)
        assert trace.predicted_ids[: len(ids)] == ids
        (translation,) = tiny_translator.translate([ANIMAL], prefix=prefix, **options)
        assert translation.ids[: len(ids)] == ids
        assert translation.text == trace.text
        assert trace.search is not None and trace.n_forced == trace.search.n_forced == len(ids)
        for token, step in zip(ids, trace.search.steps, strict=False):
            assert [each.token_id for each in step.candidates] == [token]


def test_limits_of_length_and_tokens(tiny_tokenizer: Tokenizer, tiny_config: ModelConfig) -> None:
    model = random_model(tiny_config)
    model.generator.bias[tiny_config.eos_id] = -100.0
    translator = Translator(model, tiny_tokenizer, device="cpu")
    (endless,) = translator.translate(["A dog."], beam_size=1)
    assert not endless.complete
    assert len(endless.log_probs) == len(translator.read("A dog.").ids) + 50
    trace = translator.trace("A dog.", beam_size=2, max_length=7)
    assert len(trace.predicted_ids) == 7 and not trace.complete
    model.generator.bias[[0, 1, 3]] = 50.0
    (each,) = translator.translate([ANIMAL], beam_size=2, max_length=6)
    assert not {0, 1, 3} & set(each.ids)
    (each,) = translator.translate([ANIMAL], beam_size=1, max_length=6, allow_unknown=True)
    assert set(each.ids) == {3}


def test_progress_may_stop_at_each_step_or_layer(tiny_translator: Translator) -> None:
    trace = tiny_translator.trace(ANIMAL, target="b a")
    longest = len(tiny_translator.read(ANIMAL).ids) + 50
    for call, first, end, most in (
        (lambda stop: tiny_translator.trace(ANIMAL, progress=stop), 0, 0, longest),
        (lambda stop: tiny_translator.translate([ANIMAL], progress=stop), 0, 0, longest),
        (lambda stop: tiny_translator.trace(ANIMAL, "b a", progress=stop), 1, 5, 5),
        (lambda stop: tiny_translator.trace(ANIMAL, "b a", progress=stop), 1, 2, 5),
        (lambda stop: tiny_translator.forcing_gap(trace, progress=stop), 1, 2, 3),
    ):
        seen: list[tuple[int, int]] = []

        def stop(*at: int, seen: Any = seen, end: int = end) -> None:
            seen.append(at)
            if at[0] == end:
                raise InterruptedError

        with pytest.raises(InterruptedError):
            call(stop)
        assert seen == [(step, most) for step in range(first, end + 1)]


def test_a_trace_says_by_which_rule_it_was_searched(tiny_translator: Translator) -> None:
    for rule in (PAPER, hugging_face()):
        trace = tiny_translator.trace(SENTENCES[0], beam_size=3, alpha=0.8, rule=rule)
        assert trace.search is not None and trace.search.rule == rule
        for length, step in enumerate(trace.search.steps, start=1):
            for each in step.candidates:
                assert each.score == pytest.approx(each.total / rule.penalty(length, 0.8))
        (alone,) = tiny_translator.translate([SENTENCES[0]], beam_size=3, alpha=0.8, rule=rule)
        assert trace.text == alone.text and trace.score == pytest.approx(alone.score, abs=1e-4)
    forced = tiny_translator.trace(SENTENCES[0], SENTENCES[1], alpha=0.5, rule=hugging_face())
    total = float(forced.log_probs.sum())
    assert forced.score == pytest.approx(total / len(forced.predicted_ids) ** 0.5, rel=1e-5)


@pytest.mark.parametrize("how", [list, tuple, np.array, torch.tensor, lambda ids: [*np.array(ids)],
                                 lambda ids: [*torch.tensor(ids)]])  # fmt: skip
def test_ids_may_be_arrays_and_those_of_a_trace(tiny_translator: Translator, how: Any) -> None:
    plain = tiny_translator.trace(ANIMAL, beam_size=2)
    ids = tiny_translator.tokenize(ANIMAL).ids
    assert tiny_translator.read(how(ids)) == tiny_translator.read(ANIMAL)
    for given_ids in (ids, plain.src_ids):
        trace = tiny_translator.trace(how(given_ids), beam_size=2)
        assert (trace.src_ids, trace.predicted_ids) == (plain.src_ids, plain.predicted_ids)
    sources = (how(each) for each in (plain.src_ids, ids))
    assert [each.ids for each in tiny_translator.translate(sources, beam_size=2)] == [
        plain.predicted_ids[: len(plain.predicted_ids) - plain.complete]
    ] * 2
    (trace,) = tiny_translator.traces(iter([how(ids)]), beam_size=2)
    assert trace.predicted_ids == plain.predicted_ids
    assert (
        tiny_translator.trace(ids, how(plain.predicted_ids)).predicted_ids[:-1]
        == (plain.predicted_ids[: len(plain.predicted_ids) - plain.complete])
    )
    if how in (np.array, torch.tensor):  # a row of a padded batch
        padded = tiny_translator.trace(how([*plain.src_ids, 0, 0]), beam_size=2)
        assert padded.src_ids == plain.src_ids
        assert tiny_translator.tokenizer.target.decode(how(plain.predicted_ids)) == plain.text
    forced = tiny_translator.trace(ids, beam_size=2, prefix=how(plain.tgt_ids[:4]))
    assert forced.n_forced == 3 and forced.predicted_ids[:3] == plain.predicted_ids[:3]


def test_a_translator_of_a_module(tiny_translator: Translator, tiny_config: ModelConfig) -> None:
    tokenizer = tiny_translator.tokenizer
    made = Translator.from_module(tiny_translator.model, tokenizer, device="cpu", name="mine")
    assert made.name == "mine" and made.translate([ANIMAL]) == tiny_translator.translate([ANIMAL])
    other = random_model(tiny_config.replace(vocab_size=70))
    with pytest.raises(CheckpointError, match=r"110 pieces, but config.json says vocab_size=70"):
        Translator.from_module(other, tokenizer)
    with pytest.raises(InputError, match=r"not Linear; HuggingFaceModel.of takes"):
        Translator.from_module(torch.nn.Linear(2, 2), tokenizer)  # type: ignore[arg-type]
