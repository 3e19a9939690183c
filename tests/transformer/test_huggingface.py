"""Every family of the `transformers` library, held against that library's own answers."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from tests.transformer.huggingface_models import (
    DECODERS,
    ENCODER_DECODERS,
    ENCODERS,
    EVERY,
    transformers,
)
from transformer.huggingface import HuggingFaceModel, is_hugging_face
from transformer.records import ATTENTION_KINDS, Trace
from transformer.tracer import ABILITIES, Tracer
from transformer.translator import InputError

pytestmark = pytest.mark.filterwarnings("ignore")  # those of transformers

SENTENCE = "The animal didn't cross the street."
TARGET = "Das Tier ging nicht."
#: Options of the call, and the id of what `generate` is to begin with, by the tokenizer's name.
LANGUAGES = {
    "m2m100": ({"src_lang": "de", "tgt_lang": "ar"}, "__ar__"),
    "nllb": ({"src_lang": "fra_Latn", "tgt_lang": "arb_Arab"}, "arb_Arab"),
    "mbart": ({"src_lang": "en_XX", "tgt_lang": "ro_RO"}, "ro_RO"),
}
HOSTILE = (
    "<script>alert('$x$ **y**')</script>",
    "שלום עולם and مرحبا",
    "x" * 40,
    "Zwei\u200b Männer\x00 \x1b[31m 🎸 e\u0301 👩\u200d🚀 \ud800",
    "</s> <pad> [MASK] <|endoftext|> __fr__ eng_Latn <unk>",
    "Ω",
)


class Pair(NamedTuple):
    """One model twice: the library's with its tokenizer, and ours around the same files."""

    name: str
    theirs: Any
    cut: Any
    ours: HuggingFaceModel
    folder: Path


def make_pair(name: str, folder: Path) -> Pair:
    theirs, cut = EVERY[name](folder / name)
    return Pair(name, theirs, cut, HuggingFaceModel.load(folder / name, "cpu"), folder / name)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Pair]:
    folder = tmp_path_factory.mktemp("huggingface")
    return {name: make_pair(name, folder) for name in EVERY}


@pytest.fixture(params=EVERY)
def pair(made: dict[str, Pair], request: pytest.FixtureRequest) -> Pair:
    return made[request.param]


@pytest.fixture(params=ENCODER_DECODERS)
def translating(made: dict[str, Pair], request: pytest.FixtureRequest) -> Pair:
    return made[request.param]


@pytest.fixture(params=DECODERS)
def writing(made: dict[str, Pair], request: pytest.FixtureRequest) -> Pair:
    return made[request.param]


@pytest.fixture(params=ENCODERS)
def reading(made: dict[str, Pair], request: pytest.FixtureRequest) -> Pair:
    return made[request.param]


def sides(pair: Pair) -> tuple[Any, Any, dict[str, Any]]:
    """Source and labels as the library's documentation has them, and how to begin."""
    begin: dict[str, Any] = {}
    if pair.name in LANGUAGES:
        spoken, token = LANGUAGES[pair.name]
        pair.cut.src_lang, pair.cut.tgt_lang = spoken["src_lang"], spoken["tgt_lang"]
        index = pair.cut.convert_tokens_to_ids(token)
        option = "decoder_start_token_id" if pair.name == "mbart" else "forced_bos_token_id"
        begin = {option: index}
    source = pair.cut(SENTENCE, return_tensors="pt")
    labels = pair.cut(text_target=TARGET)["input_ids"]
    return source, labels, begin


def options(pair: Pair) -> dict[str, Any]:
    return dict(LANGUAGES[pair.name][0]) if pair.name in LANGUAGES else {}


def assert_maps(trace: Trace, **expected: Any) -> None:
    for kind, layers in expected.items():
        theirs = torch.cat(layers).numpy()
        np.testing.assert_allclose(trace.attention(kind), theirs, atol=1e-6)  # type: ignore[arg-type]


def assert_predictions(trace: Trace, logits: torch.Tensor) -> None:
    """Log-probabilities, alternatives and entropy against logits, [T, V]."""
    every = torch.log_softmax(logits.double(), -1).numpy()
    rows = np.arange(len(trace.predicted_ids))
    np.testing.assert_allclose(trace.log_probs, every[rows, trace.predicted_ids], atol=1e-5)
    best = -np.sort(-every, axis=1)[:, : trace.top_ids.shape[1]]
    np.testing.assert_allclose(trace.top_log_probs, best, atol=1e-5)
    np.testing.assert_allclose(
        np.take_along_axis(every, trace.top_ids, 1), trace.top_log_probs, atol=1e-5
    )
    np.testing.assert_allclose(trace.entropy, -(np.exp(every) * every).sum(1), atol=1e-4)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_translation_is_that_of_generate(translating: Pair, beam_size: int) -> None:
    source, _, begin = sides(translating)
    # Nothing of a model's own settings ends or shortens a search.
    translating.theirs.generation_config.forced_eos_token_id = None
    found = translating.theirs.generate(
        **source, num_beams=beam_size, max_new_tokens=9, length_penalty=0.8, do_sample=False,
        early_stopping=False, return_dict_in_generate=True, output_scores=True,
        # T5's cache is as deep as its encoder, see `huggingface_decoding.generate`.
        use_cache=translating.name != "t5", **begin,
    )  # fmt: skip
    trace = translating.ours.trace(
        SENTENCE, beam_size=beam_size, alpha=0.8, max_length=9, top_k=7, **options(translating)
    )
    sequence = found.sequences[0].tolist()
    assert [trace.tgt_ids[0], *trace.predicted_ids] == sequence
    output = translating.theirs(
        **source, decoder_input_ids=torch.tensor([sequence[:-1]]), output_attentions=True
    )
    assert_maps(
        trace,
        encoder_self=output.encoder_attentions,
        decoder_self=output.decoder_attentions,
        cross=output.cross_attentions,
    )
    assert_predictions(trace, output.logits[0])
    assert trace.src_ids == tuple(source["input_ids"][0].tolist())
    assert not trace.forced and trace.search is None
    assert trace.complete == (sequence[-1] == translating.theirs.config.eos_token_id)
    if beam_size > 1 and translating.name != "marian":  # which bans <pad>, and renormalises
        assert trace.score == pytest.approx(float(found.sequences_scores[0]), abs=1e-4)


def test_a_given_target_is_read_as_in_training(translating: Pair) -> None:
    source, labels, _ = sides(translating)
    # With labels, the library itself shifts the target.
    output = translating.theirs(
        **source, labels=torch.tensor([labels]), output_attentions=True, output_hidden_states=False
    )
    trace = translating.ours.trace(SENTENCE, TARGET, top_k=3, **options(translating))
    assert trace.forced and trace.complete and trace.n_forced == len(trace.predicted_ids)
    end = len(trace.predicted_ids)
    if translating.name == "mbart":  # whose labels end with a language that is never predicted
        assert [*trace.predicted_ids, trace.tgt_ids[0]] == labels
    else:
        assert list(trace.predicted_ids) == labels
    assert_predictions(trace, output.logits[0, :end])
    assert_maps(trace, encoder_self=output.encoder_attentions)
    cross = torch.cat(output.cross_attentions)[:, :, :end].numpy()
    np.testing.assert_allclose(trace.cross, cross, atol=1e-6)
    own = torch.cat(output.decoder_attentions)[:, :, :end, :end].numpy()
    np.testing.assert_allclose(trace.decoder_self, own, atol=1e-6)


def test_a_text_predicts_each_of_its_tokens_and_one_more(writing: Pair) -> None:
    rows = writing.cut(SENTENCE, return_tensors="pt")["input_ids"]
    output = writing.theirs(rows, output_attentions=True)
    trace = writing.ours.trace(SENTENCE, top_k=4)
    assert list(trace.tgt_ids) == rows[0].tolist()
    assert trace.predicted_ids[:-1] == trace.tgt_ids[1:]
    assert trace.predicted_ids[-1] == trace.top_ids[-1, 0] == int(output.logits[0, -1].argmax())
    assert_maps(trace, decoder_self=output.attentions)
    assert_predictions(trace, output.logits[0])
    n_heads = trace.decoder_self.shape[1]
    assert trace.encoder_self.shape == (0, n_heads, 0, 0)
    assert trace.cross.shape == (0, n_heads, len(trace.tgt_ids), 0)
    assert trace.source == trace.text == SENTENCE
    assert trace.src_tokens == () and trace.forced and trace.n_forced == len(trace.tgt_ids) - 1


@pytest.mark.parametrize("beam_size", [1, 2])
def test_a_text_continued(writing: Pair, beam_size: int) -> None:
    given = writing.cut("The cat", return_tensors="pt")
    found = writing.theirs.generate(
        **given, max_new_tokens=6, num_beams=beam_size, do_sample=False, length_penalty=0.6,
        pad_token_id=0,
    )[0]  # fmt: skip
    trace = writing.ours.trace("The cat", beam_size=beam_size, new_tokens=6)
    assert list(trace.tgt_ids) == found.tolist()
    assert trace.n_forced == given["input_ids"].shape[1] - 1 and not trace.forced
    assert trace.text.startswith("The cat") and trace.source == "The cat"
    output = writing.theirs(found[None], output_attentions=True)
    assert_maps(trace, decoder_self=output.attentions)


def test_a_text_is_only_read(reading: Pair) -> None:
    rows = reading.cut(SENTENCE, return_tensors="pt")
    output = reading.theirs(**rows, output_attentions=True)
    trace = reading.ours.trace(SENTENCE)
    assert_maps(trace, encoder_self=output.attentions)
    n, n_heads = rows["input_ids"].shape[1], trace.encoder_self.shape[1]
    assert trace.decoder_self.shape == (0, n_heads, 0, 0)
    assert trace.cross.shape == (0, n_heads, 0, n)
    assert trace.tgt_tokens == trace.predicted_tokens == () and trace.log_probs.shape == (0,)
    assert trace.top_ids.shape[0] == 0 and trace.entropy.shape == (0,) and trace.text == ""
    assert trace.src_special == (0, n - 1)


@pytest.mark.parametrize("sentence", [SENTENCE, *HOSTILE])
def test_what_every_trace_holds(pair: Pair, sentence: str) -> None:
    trace = pair.ours.trace(sentence, beam_size=2, max_length=7)
    pads = {pair.theirs.config.pad_token_id} if pair.name not in ("gpt2", "marian") else set()
    typed = set(pair.cut(sentence.replace("\ud800", ""))["input_ids"])
    assert not set(trace.src_ids) & (pads - typed)
    sizes = {"encoder_self": trace.src_ids, "decoder_self": trace.tgt_ids}
    for kind in ATTENTION_KINDS:
        maps = trace.attention(kind)
        queries, keys = trace.axis_tokens(kind)
        assert maps.dtype == np.float32 and not maps.flags.writeable
        assert maps.shape[2:] == (len(queries), len(keys))
        assert (maps.shape[0] > 0) == (kind in pair.ours.kinds)
        np.testing.assert_allclose(maps.sum(-1), np.ones(maps.shape[:-1]), atol=1e-5) if (
            kind in pair.ours.kinds
        ) else None
        assert kind not in sizes or len(sizes[kind]) == len(queries)
    assert (np.triu(trace.decoder_self, 1) == 0).all()
    every = (*trace.src_tokens, *trace.tgt_tokens, *trace.predicted_tokens)
    assert all(every) and not any(" " in piece or "\n" in piece for piece in every)
    n_target = len(trace.tgt_ids)
    assert len(trace.predicted_tokens) == len(trace.log_probs) == len(trace.top_tokens) == n_target
    assert all(len(row) == trace.top_ids.shape[1] for row in trace.top_tokens)
    for positions, tokens in (
        (trace.src_special, trace.src_tokens), (trace.tgt_special, trace.tgt_tokens),
        (trace.src_unknown, trace.src_tokens),
    ):  # fmt: skip
        assert all(0 <= position < len(tokens) for position in positions)
    assert not set(trace.src_special) & set(trace.src_unknown)
    assert "\x00" not in trace.source and "\ud800" not in trace.source


def test_depths_and_heads_are_their_own(made: dict[str, Pair]) -> None:
    shapes = {
        name: [made[name].ours.trace("A dog.", max_length=3).attention(kind).shape[:2]
               for kind in ATTENTION_KINDS]
        for name in EVERY
    }  # fmt: skip
    assert shapes["t5"] == [(2, 5), (3, 5), (3, 5)]
    assert shapes["bart"] == [(3, 3), (1, 6), (1, 6)]
    assert shapes["nllb"] == shapes["m2m100"] == [(2, 3), (3, 4), (3, 4)]
    assert shapes["llama"] == [(0, 6), (2, 6), (0, 6)]
    assert shapes["bert"] == [(3, 5), (0, 5), (0, 5)]


def test_pieces_mark_the_start_of_words(made: dict[str, Pair]) -> None:
    for name, pair in made.items():
        trace = pair.ours.trace("Two men, playing (a) guitar.", max_length=3)
        tokens = trace.src_tokens or trace.tgt_tokens
        special = trace.src_special if trace.src_tokens else trace.tgt_special
        words = "".join(each for at, each in enumerate(tokens) if at not in special)
        expected = re.escape("Two▁men,▁playing▁(a)▁guitar.")
        for mark in (",", re.escape("("), re.escape(")")):
            expected = expected.replace(mark, rf"({mark}|<unk>|\[UNK\])")
        assert re.fullmatch(expected, words.removeprefix("▁")), name


def test_bytes_are_read_as_text(made: dict[str, Pair]) -> None:
    tokens = made["gpt2"].ours.trace("Straße Ω 🎸").tgt_tokens
    assert "".join(tokens).startswith("Stra<0xC3><0x9F>e▁<0xCE><0xA9>▁<0xF0>")


def test_languages(made: dict[str, Pair]) -> None:
    nllb, m2m, mbart = (made[name].ours for name in ("nllb", "m2m100", "mbart"))
    assert set(nllb.languages) == {"deu_Latn", "eng_Latn", "fra_Latn", "arb_Arab"}
    assert {"en", "fr", "zu"} <= set(m2m.languages) and "ro_RO" in mbart.languages
    assert made["t5"].ours.languages == made["gpt2"].ours.languages == ()
    # Where nobody says, the tokenizer's own, else German.
    assert m2m.trace("A dog.", max_length=3).predicted_tokens[0] == "__fr__"
    trace = nllb.trace("A dog.", max_length=3, src_lang="fra_Latn")
    assert trace.src_tokens[0] == "fra_Latn" and trace.predicted_tokens[0] == "deu_Latn"
    assert trace.src_special[0] == 0 and trace.tgt_special[:2] == (0, 1) and trace.n_forced == 1
    assert nllb.trace("A dog.", max_length=3).src_tokens[0] == "eng_Latn"  # nothing is kept
    assert mbart.trace("A dog.", max_length=3, tgt_lang="ja_XX").tgt_tokens[0] == "ja_XX"
    for wrong in ({"tgt_lang": "klingon"}, {"src_lang": "<b>"}, {"tgt_lang": ""}):
        with pytest.raises(InputError, match=r"_lang='.*' is not one of: arb_Arab, deu_Latn"):
            nllb.trace("A dog.", **wrong)
    with pytest.raises(InputError, match="no languages to choose from"):
        made["t5"].ours.trace("A dog.", tgt_lang="de")


def test_threads_do_not_mix_languages(made: dict[str, Pair]) -> None:
    model, wrong = made["nllb"].ours, []

    def ask(language: str) -> None:
        for _ in range(8):
            trace = model.trace("A dog.", "Ein Hund.", src_lang=language, tgt_lang=language)
            if {trace.src_tokens[0], trace.predicted_tokens[0]} != {language}:
                wrong.append(trace.src_tokens)

    threads = [threading.Thread(target=ask, args=(name,)) for name in model.languages[:3]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("sentence", ["", " \n\t ", "\u200b\x00"])
def test_blank(pair: Pair, sentence: str) -> None:
    with pytest.raises(InputError, match="the sentence is blank"):
        pair.ours.trace(sentence)


def test_too_long_is_said_with_the_limit(made: dict[str, Pair]) -> None:
    for name, limit in (("bart", 64), ("gpt2", 48), ("bert", 60), ("m2m100", 80), ("t5", 512)):
        assert made[name].ours.max_tokens == limit
        with pytest.raises(InputError, match=rf"has [\d,]+ tokens .*at most {limit} are allowed"):
            made[name].ours.trace("Ω a " * limit)
        fits = made[name].ours.trace("a " * (limit // 4), max_length=3)
        assert max(fits.encoder_self.shape[2], fits.decoder_self.shape[2]) <= limit
    with pytest.raises(InputError, match=r"the target has .* at most 64 are allowed"):
        made["bart"].ours.trace("A dog.", "b c " * 64)
    with pytest.raises(InputError, match="10,001 characters; at most 10,000"):
        made["bert"].ours.trace("x" * 10_001)
    with pytest.raises(InputError, match=r"new_tokens 40 after .* at most 48 tokens"):
        made["gpt2"].ours.trace("The animal was tired.", new_tokens=40)


def test_a_word_of_200_characters(made: dict[str, Pair]) -> None:
    for name in ("t5", "marian", "bert"):
        trace = made[name].ours.trace("x" * 56 + "Ω" * 144 if name != "bert" else "x" * 200)
        assert trace.source in ("x" * 56 + "Ω" * 144, "x" * 200)


def test_as_long_as_allowed(made: dict[str, Pair]) -> None:
    """The last position of a table of positions can be reached."""
    for name in ("bart", "bert", "gpt2", "m2m100", "mbart", "marian"):
        model = made[name].ours
        words = next(
            count for count in range(model.max_tokens, 0, -1)
            if fits(model, "a " * count)
        )  # fmt: skip
        trace = model.trace("a " * words, max_length=2)
        assert len(trace.src_ids or trace.tgt_ids) >= model.max_tokens - 2


def fits(model: HuggingFaceModel, sentence: str) -> bool:
    try:
        model.trace(sentence, max_length=1)
    except InputError:
        return False
    return True


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"beam_size": 0}, "beam size 0"), ({"beam_size": 65}, "from 1 to 64"),
        ({"alpha": float("nan")}, "alpha nan"), ({"alpha": "x"}, "alpha 'x'"),
        ({"top_k": 0}, "top_k 0"), ({"max_length": 0}, "max_length 0"),
        ({"prefix": "Das"}, "takes no choice in its place"), ({"target": " "}, "target is blank"),
        ({"sampling": object()}, "takes no choice in its place"),
    ],
)  # fmt: skip
def test_settings_out_of_range(made: dict[str, Pair], options: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        made["t5"].ours.trace("A dog.", **options)


def test_no_target_without_an_encoder_and_a_decoder(made: dict[str, Pair]) -> None:
    for name in ("gpt2", "bert"):
        with pytest.raises(InputError, match="takes no target"):
            made[name].ours.trace("A dog.", "Ein Hund.")
    for new_tokens in (-1, 1.5, True):
        with pytest.raises(InputError, match="new_tokens"):
            made["gpt2"].ours.trace("A dog.", new_tokens=new_tokens)  # type: ignore[arg-type]


def test_what_it_lacks_is_said_in_one_sentence(pair: Pair) -> None:
    assert isinstance(pair.ours, Tracer)
    assert pair.ours.lacks("any_sentence") is None
    for ability in ABILITIES:
        said = pair.ours.lacks(ability)
        assert said is None or (said.endswith(".") and said.count(". ") == 0 and "\n" not in said)
        assert (said is None) == (ability == "any_sentence")


def test_progress_can_stop(made: dict[str, Pair]) -> None:
    class StopError(Exception):
        pass

    seen: list[tuple[int, int]] = []

    def progress(step: int, steps: int) -> None:
        seen.append((step, steps))
        if step == 3:
            raise StopError

    for name in ("t5", "nllb"):
        seen.clear()
        with pytest.raises(StopError):
            made[name].ours.trace(SENTENCE, max_length=8, beam_size=2, progress=progress)
        assert seen == [(1, 8), (2, 8), (3, 8)]


def test_twice_the_same(pair: Pair) -> None:
    first, second = (pair.ours.trace(SENTENCE, max_length=6) for _ in range(2))
    assert first.predicted_ids == second.predicted_ids and first.src_tokens == second.src_tokens
    for kind in ATTENTION_KINDS:
        assert np.array_equal(first.attention(kind), second.attention(kind))


def test_known_by_their_folder(pair: Pair, tiny_checkpoint: Path) -> None:
    assert is_hugging_face(pair.folder) and not is_hugging_face(tiny_checkpoint)
    assert not is_hugging_face(pair.folder.parent)
    assert pair.ours.name == pair.name and pair.ours.device == "cpu"


def test_a_device_that_is_not_here(made: dict[str, Pair]) -> None:
    with pytest.raises(InputError, match="device 'tpu' is not here"):
        HuggingFaceModel.load(made["bert"].folder, "tpu")


def test_a_model_of_two_others(tmp_path: Path) -> None:
    """An encoder and a decoder that were each a model: BERT to BERT."""
    _, cut = EVERY["bert"](tmp_path / "bert")
    encoder = transformers.BertConfig.from_pretrained(tmp_path / "bert")
    decoder = transformers.BertConfig.from_pretrained(
        tmp_path / "bert", is_decoder=True, add_cross_attention=True, num_hidden_layers=2
    )
    config = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
    config.decoder_start_token_id, config.pad_token_id, config.eos_token_id = 2, 0, 3
    transformers.EncoderDecoderModel(config).save_pretrained(tmp_path / "both")
    cut.save_pretrained(tmp_path / "both")
    trace = HuggingFaceModel.load(tmp_path / "both", "cpu").trace(SENTENCE, "A dog runs.")
    assert [trace.attention(kind).shape[0] for kind in ATTENTION_KINDS] == [3, 2, 2]
    assert trace.predicted_tokens[-1] == "[SEP]"
