import copy
import itertools
import json
import re
import shutil
import socket
import threading
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.transformer.conftest import Command, check_trace
from tests.transformer.damage import edit, remove, torch_file
from tests.transformer.models.huggingface.models import (
    ADDING,
    DECODERS,
    ENCODER_DECODERS,
    ENCODERS,
    EVERY,
    Pair,
    transformers,
    typed_texts,
)
from transformer.measures.words import group_labels, word_groups
from transformer.models.arrays.trace_file import load_arrays
from transformer.models.catalogue import inspect_entry, resolve
from transformer.models.huggingface.files import check_folder
from transformer.models.huggingface.model import HuggingFaceModel
from transformer.models.importers.settings import GENERATING
from transformer.search.request import Decoding, default_decoding
from transformer.text.marks import is_unknown, unmarked
from transformer.text.tokenizer import clean
from transformer.trace.records import Trace
from transformer.trace.tracer import ABILITIES, Tracer
from transformer.types import ATTENTION_KINDS, CheckpointError, InputError

pytestmark = pytest.mark.filterwarnings("ignore")  # those of transformers

SENTENCE = "The animal didn't cross the street."
TARGET = "Das Tier ging nicht."
#: Options of the call, and the first id for `generate`, by the tokenizer's name.
LANGUAGES = {
    "m2m100": ({"src_lang": "de", "tgt_lang": "ar"}, "__ar__"),
    "nllb": ({"src_lang": "fra_Latn", "tgt_lang": "arb_Arab"}, "arb_Arab"),
    "mbart": ({"src_lang": "en_XX", "tgt_lang": "ro_RO"}, "ro_RO"),
}
CONFIG, SETTINGS = "config.json", "tokenizer_config.json"
HOSTILE = (
    "<script>'$x$ **y**'</script> שלום",
    "x" * 40,
    "Zwei\u200b Männer\x00 \x1b[31m 🎸 e\u0301 👩\u200d🚀 \ud800",
    "</s> <pad> [MASK] <|endoftext|> __fr__ eng_Latn <unk>",
)


def each_of(names: Iterable[str]) -> Any:
    @pytest.fixture(params=names)
    def one(made: dict[str, Pair], request: pytest.FixtureRequest) -> Pair:
        return made[request.param]

    return one


@pytest.fixture
def copied(made: dict[str, Pair], tmp_path: Path) -> Callable[[str], Path]:
    return lambda name: Path(shutil.copytree(made[name].folder, tmp_path / name))


pair, translating, writing, reading = map(each_of, (EVERY, ENCODER_DECODERS, DECODERS, ENCODERS))


def sides(pair: Pair) -> tuple[Any, Any, dict[str, Any]]:
    """Return source and labels as in the library's documentation, and the first id."""
    begin: dict[str, Any] = {}
    if pair.name in LANGUAGES:
        spoken, token = LANGUAGES[pair.name]
        pair.cut.src_lang, pair.cut.tgt_lang = spoken["src_lang"], spoken["tgt_lang"]
        index = pair.cut.convert_tokens_to_ids(token)
        option = "decoder_start_token_id" if pair.name == "mbart" else "forced_bos_token_id"
        begin = {option: index}
    source = pair.cut(SENTENCE, return_tensors="pt")
    labels = pair.cut(text_target=TARGET)["input_ids"]
    if pair.name == "fsmt":  # whose tokenizer looks targets up in the source's vocabulary
        numbers = {piece: index for index, piece in pair.cut.decoder.items()}
        unknown = pair.cut.unk_token_id
        labels = [*(numbers.get(each, unknown) for each in pair.cut.tokenize(TARGET)), labels[-1]]
    return source, labels, begin


def options(pair: Pair) -> dict[str, Any]:
    return dict(LANGUAGES[pair.name][0]) if pair.name in LANGUAGES else {}


def assert_maps(trace: Trace, **expected: Any) -> None:
    for kind, layers in expected.items():
        theirs = torch.cat(layers).numpy()
        np.testing.assert_allclose(trace.attention(kind), theirs, atol=1e-6)  # type: ignore[arg-type]


def assert_predictions(trace: Trace, logits: torch.Tensor) -> None:
    """Compare log-probabilities of a target, alternatives and entropy with logits [T, V]."""
    every = torch.log_softmax(logits.double(), -1).numpy()
    rows = np.arange(len(trace.predicted_ids))
    if trace.forced:
        own = int(not trace.log_probs[0])  # after a language or `<s>` that the model never chooses
        chosen = every[rows, trace.predicted_ids]
        np.testing.assert_allclose(trace.log_probs[own:], chosen[own:], atol=1e-5)
    best = -np.sort(-every, axis=1)[:, : trace.top_ids.shape[1]]
    np.testing.assert_allclose(trace.top_log_probs, best, atol=1e-5)
    np.testing.assert_allclose(
        np.take_along_axis(every, trace.top_ids, 1), trace.top_log_probs, atol=1e-5
    )
    np.testing.assert_allclose(trace.entropy, -(np.exp(every) * every).sum(1), atol=1e-4)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_translation_is_that_of_generate(translating: Pair, beam_size: int) -> None:
    source, _, begin = sides(translating)
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
        **source, decoder_input_ids=torch.tensor([sequence[:-1]]), output_attentions=True,
        use_cache=False,  # with which FSMT's decoder is not causal
    )  # fmt: skip
    assert_maps(
        trace, encoder_self=output.encoder_attentions, decoder_self=output.decoder_attentions,
        cross=output.cross_attentions,
    )  # fmt: skip
    assert_predictions(trace, output.logits[0])
    assert trace.src_ids == tuple(source["input_ids"][0].tolist())
    assert not trace.forced and trace.search is None
    eos = translating.theirs.config.eos_token_id
    free = int(output.logits[0, -1].argmax()) == eos or len(trace.predicted_ids) < 9
    # BART's settings force an end at the limit.
    assert trace.complete == (sequence[-1] == eos and free)
    assert trace.n_words == len(trace.predicted_ids) - (sequence[-1] == eos)


@pytest.mark.parametrize("own", [
    {}, {"forced_eos_token_id": 2, "forced_bos_token_id": None}, {"min_new_tokens": 4},
    {"bad_words_ids": [[40], [9, 11], [60, 40, 9]], "renormalize_logits": True},
    {"repetition_penalty": 1.7, "no_repeat_ngram_size": 2, "length_penalty": -1.5},
    {"suppress_tokens": [*range(60, 150)], "begin_suppress_tokens": [20, 21], "num_beams": 2},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("name", ["bart", "gpt2"])
def test_scores_are_those_of_the_librarys_search(
    name: str, own: dict[str, Any], made: dict[str, Pair], copied: Callable[[str], Path]
) -> None:
    edit("generation_config.json", **own)(folder := copied(name))
    ours, theirs = HuggingFaceModel.load(folder, "cpu"), type(made[name].theirs)
    theirs = theirs.from_pretrained(folder, attn_implementation="eager")
    given = made[name].cut(SENTENCE, return_tensors="pt")
    for beam, limit in itertools.product(range(1, 6), (3, 12)):
        found = theirs.generate(
            **given, num_beams=beam, max_new_tokens=limit, max_length=None, do_sample=False,
            return_dict_in_generate=True, output_scores=True,
        )  # fmt: skip
        tokens = theirs.compute_transition_scores(
            found.sequences, found.scores, getattr(found, "beam_indices", None),
            normalize_logits=beam == 1,
        )[0]  # fmt: skip
        length = {"new_tokens": limit} if name == "gpt2" else {"max_length": limit}
        trace = ours.trace(SENTENCE, beam_size=beam, **length)
        n, first = len(tokens), given["input_ids"].shape[1] - 1 if name == "gpt2" else 0
        made_by = found.sequences[0, -n:].tolist()
        assert list(trace.predicted_ids[first : first + n]) == made_by
        log_probs = trace.log_probs[first : first + n]
        np.testing.assert_allclose(log_probs, tokens, atol=1e-4)
        assert trace.score == pytest.approx(log_probs.sum() / n**ours.decoding.alpha, rel=1e-5)
        if name == "bart":
            running = log_probs.cumsum() / trace.penalties
            every = np.arange(1, n + 1.0) ** ours.decoding.alpha
            np.testing.assert_allclose(trace.penalties, every, rtol=1e-6)
            assert running[-1] == pytest.approx(trace.score, rel=1e-5)
        if beam > 1:
            assert trace.score == pytest.approx(float(found.sequences_scores[0]), 1e-6, 1e-4)
        if own.get("forced_eos_token_id") and limit == 3:
            assert made_by[-1] == 2 and log_probs[-1] == 0


def test_a_given_target_is_read_as_in_training(translating: Pair) -> None:
    source, labels, _ = sides(translating)
    # With labels, the library itself shifts the target; FSMT shifts the source.
    shifted: dict[str, Any] = {}
    if translating.name == "fsmt":
        given = translating.theirs.prepare_decoder_input_ids_from_labels(torch.tensor([labels]))
        shifted = {"decoder_input_ids": given}
    output = translating.theirs(
        **source, labels=torch.tensor([labels]), output_attentions=True, use_cache=False, **shifted
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
    table = translating.cut.convert_ids_to_tokens(labels)  # of the target, where there are two
    marks = re.compile(r"[▁Ġ ]|</w>$|@@$|^##")
    names = [marks.sub("", token) for token in trace.predicted_tokens]
    assert names == [marks.sub("", name) for name in table[:end]]


def test_a_text_predicts_each_of_its_tokens_and_one_more(writing: Pair) -> None:
    rows = writing.cut(SENTENCE, return_tensors="pt")["input_ids"]
    output = writing.theirs(rows, output_attentions=True)
    trace = writing.ours.trace(SENTENCE, top_k=4)
    assert list(trace.tgt_ids) == rows[0].tolist()
    assert trace.predicted_ids[:-1] == trace.tgt_ids[1:]
    assert trace.predicted_tokens[:-1] == trace.tgt_tokens[1:]
    assert trace.predicted_ids[-1] == trace.top_ids[-1, 0] == int(output.logits[0, -1].argmax())
    assert_maps(trace, decoder_self=output.attentions)
    assert_predictions(trace, output.logits[0])
    n_heads = trace.decoder_self.shape[1]
    assert trace.encoder_self.shape == (0, n_heads, 0, 0)
    assert trace.cross.shape == (0, n_heads, len(trace.tgt_ids), 0)
    assert trace.source == trace.text == SENTENCE
    assert trace.src_tokens == () and trace.forced and trace.n_forced == len(trace.tgt_ids) - 1


def test_an_end_that_is_no_token_is_ignored(
    made: dict[str, Pair], copied: Callable[[str], Path]
) -> None:
    """A small GPT-2 keeps the large model's end id by default."""
    folder = copied("gpt2")
    for name in ("config.json", "generation_config.json"):
        edit(name, eos_token_id=50256, bos_token_id=50256, pad_token_id=50256)(folder)
    theirs = type(made["gpt2"].theirs).from_pretrained(folder)
    given = made["gpt2"].cut("The cat", return_tensors="pt")
    trace = HuggingFaceModel.load(folder, "cpu").trace("The cat", beam_size=2, new_tokens=5)
    found = theirs.generate(
        **given, max_new_tokens=5, num_beams=2, do_sample=False,
        length_penalty=made["gpt2"].ours.decoding.alpha,
    )  # fmt: skip
    assert list(trace.tgt_ids) == found[0].tolist()


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
    assert_maps(trace, decoder_self=writing.theirs(found[None], output_attentions=True).attentions)


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


@pytest.mark.parametrize("sentence", [SENTENCE, "Ω", *HOSTILE])
def test_what_every_trace_holds(pair: Pair, sentence: str) -> None:
    trace = pair.ours.trace(sentence, beam_size=2, max_length=7)
    pads = {pair.theirs.config.pad_token_id} if pair.name not in ("gpt2", "marian") else set()
    typed = set(pair.cut(sentence.replace("\ud800", ""))["input_ids"])
    assert not set(trace.src_ids) & (pads - typed)
    check_trace(trace)
    assert len(trace.src_ids) == len(trace.src_tokens)
    assert [kind for kind in ATTENTION_KINDS if len(trace.attention(kind))] == [*pair.ours.kinds]
    every = (*trace.src_tokens, *trace.tgt_tokens, *trace.predicted_tokens)
    assert all(every) and not any(" " in piece or "\n" in piece for piece in every)
    assert all(len(row) == trace.top_ids.shape[1] for row in trace.top_tokens)
    for positions, tokens in (
        (trace.src_special, trace.src_tokens), (trace.tgt_special, trace.tgt_tokens),
        (trace.src_unknown, trace.src_tokens),
    ):  # fmt: skip
        assert all(0 <= position < len(tokens) for position in positions)
    assert not set(trace.src_special) & set(trace.src_unknown)
    assert "\x00" not in trace.source and "\ud800" not in trace.source


def test_a_text_is_cut_as_the_library_cuts_it(pair: Pair) -> None:
    """Only displayed text is normalised."""
    sides(pair)  # sets the languages
    for text in typed_texts(500):
        cut = pair.ours._text.cut(text, 10_000, **options(pair))
        assert list(cut.ids) == pair.cut(text)["input_ids"], repr(text)
        assert cut.text == clean(text)
        assert all(len(piece.splitlines()) == 1 and " " not in piece for piece in cut.pieces)
        if pair.name in ENCODER_DECODERS and pair.name != "fsmt":
            target = pair.ours._text.cut(text, 10_000, target=True, **options(pair))
            assert list(target.ids) == pair.cut(text_target=text)["input_ids"], repr(text)


@pytest.mark.parametrize("name", ADDING)
def test_added_tokens_are_words(made: dict[str, Pair], name: str) -> None:
    trace = made[name].ours.trace("The covid19 $ cat New York", max_length=2)
    words = group_labels(trace.src_tokens, word_groups(trace.src_tokens, trace.src_special))
    assert "covid19" in words and words[-2] == "New▁York" and "▁" not in words


def test_what_every_model_says(pair: Pair) -> None:
    assert pair.ours.name == pair.name and pair.ours.device == "cpu"
    assert resolve(pair.folder).kind == ("foreign" if pair.name == "marian" else "huggingface")
    for sentence in ("", " \n\t ", "\u200b\x00"):
        with pytest.raises(InputError, match="blank"):
            pair.ours.trace(sentence)
    assert isinstance(pair.ours, Tracer)
    for ability in ABILITIES:
        said = pair.ours.lacks(ability)
        assert said is None or (said.endswith(".") and said.count(". ") == 0 and "\n" not in said)
        assert (said is None) == (ability == "any_sentence")
    with pytest.raises(TypeError, match="beam_sise"):
        pair.ours.trace("A dog runs.", beam_sise=3)
    for ask in (pair.ours.edited, lambda edit: pair.ours.trace("A dog.", edits=[edit])):
        with pytest.raises(InputError, match="“off cross”: This model is run by the transformers"):
            ask("off cross")


def test_unused_settings_are_said(copied: Callable[[str], Path], command: Command) -> None:
    more = {"num_beams": 6, "num_beam_groups": 3, "no_repeat_ngram_size": 3, "do_sample": False}
    folder = copied("bart")
    assert inspect_entry(folder).unused == ()
    edit("generation_config.json", **more)(folder)
    assert inspect_entry(folder).unused == ("num_beam_groups=3",)
    assert "generation settings not used: num_beam_groups=3" in command("info", folder).out


@pytest.mark.parametrize("left_out", ["nothing", "start", "start and bos", "the file"])
def test_a_decoder_starts_where_the_librarys_does(
    translating: Pair, left_out: str, copied: Callable[[str], Path]
) -> None:
    if translating.name == "mbart":
        return  # it starts from the target language
    folder, decoding = copied(translating.name), "generation_config.json"
    if left_out.startswith("start"):
        bos = 3 if left_out == "start" else ...
        for name in (CONFIG, decoding):
            edit(name, decoder_start_token_id=..., bos_token_id=bos)(folder)
    if left_out == "the file":  # older models have everything in config.json
        edit(CONFIG, bos_token_id=3)(folder)
        remove(decoding)(folder)
    theirs = type(translating.theirs).from_pretrained(folder, attn_implementation="eager")
    source = translating.cut(SENTENCE, return_tensors="pt")
    try:
        expected = theirs.generate(
            **source, max_new_tokens=3, do_sample=False, num_beams=1,
            use_cache=translating.name != "t5",
        )[0]  # fmt: skip
    except ValueError:
        with pytest.raises(CheckpointError, match="decoder_start_token_id is missing"):
            HuggingFaceModel.load(folder, "cpu")
        return
    trace = HuggingFaceModel.load(folder, "cpu").trace(SENTENCE, beam_size=1, max_length=3)
    in_memory = HuggingFaceModel.of(theirs, translating.cut, "cpu")
    assert trace.tgt_ids[0] == int(expected[0])
    assert in_memory.trace(SENTENCE, beam_size=1, max_length=2).tgt_ids[0] == int(expected[0])
    if translating.name not in ("m2m100", "nllb"):  # which begin with a language
        assert [*trace.tgt_ids[:1], *trace.predicted_ids][: len(expected)] == expected.tolist()


@pytest.mark.parametrize("written", [True, False])
def test_settings_without_a_file_of_their_own_are_the_librarys(
    translating: Pair, written: bool, copied: Callable[[str], Path]
) -> None:
    """In a folder the library reads config.json, in memory also the defaults of its class."""
    folder, kind = copied(translating.name), type(translating.theirs)
    remove("generation_config.json")(folder)
    if not written:  # defaults of BART, FSMT and others
        names = ("forced_eos_token_id", "num_beams", "length_penalty", "early_stopping")
        edit(CONFIG, **dict.fromkeys(names, ...))(folder)
    source, _, begin = sides(translating)
    opened = kind.from_pretrained(folder, attn_implementation="eager")
    made = kind(opened.config)  # has the defaults of its class
    made.load_state_dict(opened.state_dict())
    made.eval().set_attn_implementation("eager")
    for ours, theirs in (
        (HuggingFaceModel.load(folder, "cpu"), opened),
        (HuggingFaceModel.of(made, translating.cut, "cpu"), made),
    ):
        found = theirs.generate(
            **source, **begin, max_new_tokens=7, max_length=None, return_dict_in_generate=True,
            output_scores=True, use_cache=translating.name != "t5",
        )  # fmt: skip
        trace = ours.trace(SENTENCE, max_length=7, **options(translating))
        assert [trace.tgt_ids[0], *trace.predicted_ids] == found.sequences[0].tolist()
        if (scores := getattr(found, "sequences_scores", None)) is not None:
            assert trace.score == pytest.approx(float(scores[0]), abs=1e-4)
        assert ours.decoding.beam_size == (theirs.generation_config.num_beams or 1)


@pytest.mark.parametrize("own", [
    {"num_beams": 5, "length_penalty": 0.0}, {"num_beams": 2, "length_penalty": 3.0},
    {"num_beams": 3, "early_stopping": "never"}, {"num_beams": 1}, {"length_penalty": 0},
    {"num_beams": 4, "no_repeat_ngram_size": 2, "early_stopping": True},
    {"num_beams": 1, "repetition_penalty": 1.9},
    {"num_beams": 1, "min_length": 4, "eos_token_id": 294},
], ids=str)  # fmt: skip
def test_a_models_own_decoding_is_the_default(
    own: dict[str, Any], made: dict[str, Pair], copied: Callable[[str], Path]
) -> None:
    edit("generation_config.json", **own)(folder := copied("bart"))
    ours, pair = HuggingFaceModel.load(folder, "cpu"), made["bart"]
    assert default_decoding(inspect_entry(folder).metrics) == ours.decoding
    source, _, _ = sides(pair)
    made_by = pair.theirs.generate(**source, **own, max_new_tokens=9, do_sample=False)
    trace = ours.trace(SENTENCE, max_length=9)
    assert [trace.tgt_ids[0], *trace.predicted_ids] == made_by[0].tolist()


@pytest.mark.parametrize("value", ["x", {"a": 1}, [["x"]], -7, 1e30, 10**12, True, 0.5, [], None])
@pytest.mark.parametrize("name", ["generation_config.json", CONFIG])
def test_a_bad_setting_is_listed_and_the_model_opens(
    name: str, value: Any, copied: Callable[[str], Path], made: dict[str, Pair]
) -> None:
    folder = copied("bart")
    if name == CONFIG:
        remove("generation_config.json")(folder)
    edit(name, **dict.fromkeys(GENERATING, value))(folder)
    entry, ours = inspect_entry(folder), HuggingFaceModel.load(folder, "cpu")
    assert entry.error is None and ours.decoding == default_decoding(entry.metrics)
    assert len(ours.trace(SENTENCE, max_length=5).predicted_ids) <= 5
    listed = {said.partition("=")[0] for said in entry.unused}
    if value in ("x", {"a": 1}, [["x"]]):
        assert listed == {*GENERATING} and f"min_length={value!r}" in entry.unused
    assert bool(listed) == (value is not None)


def test_numbers_beyond_the_search_are_brought_within_its_limits(
    copied: Callable[[str], Path],
) -> None:
    own = {"num_beams": 100, "length_penalty": -11, "early_stopping": 1}
    edit("generation_config.json", **own)(folder := copied("bart"))
    said = ("early_stopping=1", "num_beams=100 (64 here)", "length_penalty=-11 (-10 here)")
    assert inspect_entry(folder).unused == said
    assert HuggingFaceModel.load(folder, "cpu").decoding == Decoding(64, -10.0, False)


def two_berts(bert: Pair, folder: Path, sizes: tuple[int, int] = (0, 0)) -> None:
    """Write a BERT encoder and decoder whose vocabulary sizes differ by `sizes`."""
    as_decoder = {"is_decoder": True, "add_cross_attention": True, "num_hidden_layers": 2}
    encoder, decoder = (
        transformers.BertConfig.from_pretrained(bert.folder, vocab_size=len(bert.cut) + n, **more)
        for n, more in zip(sizes, ({}, as_decoder), strict=True)
    )
    config = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
    config.decoder_start_token_id, config.pad_token_id, config.eos_token_id = 2, 0, 3
    transformers.EncoderDecoderModel(config).save_pretrained(folder)
    bert.cut.save_pretrained(folder)


def test_a_model_of_two_others(made: dict[str, Pair], tmp_path: Path) -> None:
    two_berts(made["bert"], tmp_path)
    trace = HuggingFaceModel.load(tmp_path, "cpu").trace(SENTENCE, "A dog runs.")
    assert [trace.attention(kind).shape[0] for kind in ATTENTION_KINDS] == [3, 2, 2]
    assert trace.predicted_tokens[-1] == "[SEP]"
    assert "two vocabularies have one size" in inspect_entry(tmp_path).about


@pytest.mark.parametrize("sizes", [(0, -23), (0, 40), (-23, 0), (40, 0)])
def test_one_side_without_names(
    made: dict[str, Pair], sizes: tuple[int, int], tmp_path: Path
) -> None:
    two_berts(made["bert"], tmp_path, sizes)
    if sizes[0]:
        reason = f"but the model's source vocabulary has {len(made['bert'].cut) + sizes[0]}"
        with pytest.raises(CheckpointError, match=reason):
            HuggingFaceModel.load(tmp_path, "cpu")
        return
    ours = HuggingFaceModel.load(tmp_path, "cpu")
    assert "one size" not in inspect_entry(tmp_path).about
    trace = ours.trace(SENTENCE, max_length=4)
    assert trace.src_tokens[:2] == ("[CLS]", "▁The")
    numbers = [token.removeprefix("▁") for token in trace.predicted_tokens]
    assert numbers == [f"<{index}>" for index in trace.predicted_ids]
    assert trace.text == " ".join(numbers)
    assert "decoder's tokens are numbers" in str(ours.lacks("vocabulary"))
    with pytest.raises(InputError, match="has no table"):
        ours.trace(SENTENCE, "A dog runs.")


def test_the_encoder_of_a_t5_alone(tmp_path: Path) -> None:
    EVERY["t5"](tmp_path)
    theirs = transformers.T5EncoderModel.from_pretrained(tmp_path, attn_implementation="eager")
    theirs.save_pretrained(tmp_path)
    (tmp_path / "generation_config.json").unlink()
    ours = HuggingFaceModel.load(tmp_path, "cpu")
    trace = ours.trace(SENTENCE)
    assert ours.family == "encoder" and not trace.tgt_tokens
    with torch.inference_mode():
        seen = theirs.eval()(input_ids=torch.tensor([trace.src_ids]), output_attentions=True)
    expected = torch.stack(seen.attentions)[:, 0].numpy()
    np.testing.assert_allclose(trace.encoder_self, expected, atol=1e-6)


def test_pieces_mark_the_start_of_words(made: dict[str, Pair]) -> None:
    for name in EVERY:
        trace = made[name].ours.trace("Two men, playing (a) guitar.", max_length=3)
        tokens = trace.src_tokens or trace.tgt_tokens
        special = trace.src_special if trace.src_tokens else trace.tgt_special
        pieces = [each for at, each in enumerate(tokens) if at not in special]
        words = "".join(unmarked(pieces)).removeprefix("▁")
        if name == "fsmt":  # where marks are words of their own
            words = words.replace("▁(▁a▁)", "▁(a)").replace("▁.", ".").replace("▁,", ",")
        assert words == "Two▁men,▁playing▁(a)▁guitar.", name
    tokens = made["gpt2"].ours.trace("Straße Ω 🎸").tgt_tokens
    assert "".join(tokens).startswith("Stra<0xC3><0x9F>e▁<0xCE><0xA9>▁<0xF0>")


@pytest.mark.parametrize("name", ["t5", "m2m100", "nllb", "mbart", "llama", "bert", "marian"])
def test_unknown_text_has_its_name(made: dict[str, Pair], name: str) -> None:
    ours = made[name].ours
    both = ours.family == "encoder_decoder"
    trace = ours.trace("Two 🎸 men ☃☃", *(["A <i> 🎻 dog"] if both else []))
    pieces = trace.src_tokens or trace.tgt_tokens
    words = group_labels(pieces, word_groups(pieces, trace.src_special or trace.tgt_special))
    assert {"Two", "⁇🎸", "⁇☃☃"} <= {*words} and not {"<unk>", "[UNK]"} & {*pieces}
    if both:
        assert trace.src_unknown == tuple(at for at, p in enumerate(pieces) if is_unknown(p))
        assert trace.tgt_tokens[1:] == trace.predicted_tokens[:-1]
        assert any(piece.endswith("⁇🎻") for piece in trace.predicted_tokens)


def test_ids_without_a_piece_are_words(made: dict[str, Pair]) -> None:
    for name in ("t5", "gpt2", "fsmt"):
        text = made[name].ours._text
        lost = max(text.sizes) + 7
        first, second = text.cut("A dog", 10).ids[:2]
        pieces = text.shown((first, lost))
        assert group_labels(pieces, word_groups(pieces))[-1] == f"<{lost}>", name
        assert text.shown((second,), lost) == text.shown((second,)), name


def test_languages(made: dict[str, Pair]) -> None:
    nllb, m2m, mbart = (made[name].ours for name in ("nllb", "m2m100", "mbart"))
    assert set(nllb.languages) == {"deu_Latn", "eng_Latn", "fra_Latn", "arb_Arab"}
    assert {"en", "fr", "zu"} <= set(m2m.languages) and "ro_RO" in mbart.languages
    assert made["t5"].ours.languages == made["gpt2"].ours.languages == ()
    # The default is the tokenizer's own, else German.
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


LIMITS = {"bart": 64, "bert": 60, "gpt2": 48, "m2m100": 80, "mbart": 70, "marian": 80}


def test_lengths_up_to_the_last_position(made: dict[str, Pair]) -> None:
    for name, limit in LIMITS.items():
        model = made[name].ours
        assert model.max_tokens == limit
        with pytest.raises(InputError, match=rf"has [\d,]+ tokens .*at most {limit} are allowed"):
            model.trace("Ω a " * limit)
        words = next(count for count in range(limit, 0, -1) if fits(model, "a " * count))
        trace = model.trace("a " * words, max_length=2)
        assert limit - 2 <= len(trace.src_ids or trace.tgt_ids) <= limit
    assert made["t5"].ours.max_tokens == 512
    with pytest.raises(InputError, match=r"the target has .* at most 64 are allowed"):
        made["bart"].ours.trace("A dog.", "b c " * 64)
    with pytest.raises(InputError, match="10,001 characters; at most 10,000"):
        made["bert"].ours.trace("x" * 10_001)
    with pytest.raises(InputError, match=r"new_tokens=40 after .* limit of 48 tokens"):
        made["gpt2"].ours.trace("The animal was tired.", new_tokens=40)


def fits(model: HuggingFaceModel, sentence: str) -> bool:
    try:
        model.trace(sentence, max_length=1)
    except InputError:
        return False
    return True


@pytest.mark.parametrize(("name", "options", "reason"), [
    ("t5", {"beam_size": 0}, "beam size 0"), ("t5", {"alpha": "x"}, "alpha 'x'"),
    ("t5", {"top_k": 0}, "top_k 0"), ("t5", {"max_length": 0}, "max_length 0"),
    ("t5", {"prefix": "Das"}, "cannot override"), ("t5", {"target": " "}, "target is blank"),
    ("t5", {"sampling": object()}, "cannot override"),
    *((name, {"target": "Ein Hund."}, "takes no target") for name in ("gpt2", "bert")),
    *(("gpt2", {"new_tokens": wrong}, "new_tokens") for wrong in (-1, 1.5, True)),
])  # fmt: skip
def test_bad_settings(
    made: dict[str, Pair], name: str, options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InputError, match=reason):
        made[name].ours.trace("A dog.", **options)


@pytest.mark.parametrize("name", ["t5", "bart", "gpt2"])
def test_a_beam_that_takes_too_much_memory_is_refused(
    name: str, made: dict[str, Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = {"new_tokens": 20} if name == "gpt2" else {"max_length": 20}
    monkeypatch.setattr("transformer.models.huggingface.tracing.MAX_BYTES", 2**19)
    made[name].ours.trace("A dog.", beam_size=2, **limit)
    with pytest.raises(InputError, match=r"^beam size 64 over \d+ and 20 .* take a smaller beam"):
        made[name].ours.trace("A dog.", beam_size=64, **limit)


def test_progress_can_stop(made: dict[str, Pair]) -> None:
    def progress(step: int, steps: int) -> None:
        seen.append((step, steps))
        if step == 3:
            raise InterruptedError

    for name in ("t5", "nllb"):
        seen: list[tuple[int, int]] = []
        with pytest.raises(InterruptedError):
            made[name].ours.trace(SENTENCE, max_length=8, beam_size=2, progress=progress)
        assert seen == [(1, 8), (2, 8), (3, 8)]


def test_sizes_without_the_library(copied: Callable[[str], Path]) -> None:
    """Sizes are rejected only if they would allocate large tensors."""
    folder = copied("gpt2")
    edit(CONFIG, rope_theta=10**9, total_params=7 * 10**9, max_length=10**30)(folder)
    model = HuggingFaceModel.load(folder, "cpu")
    assert model.max_tokens == 48
    assert check_folder(folder) * 4 == model.nbytes


def test_code_beside_the_model_is_not_run(copied: Callable[[str], Path], tmp_path: Path) -> None:
    folder = copied("gpt2")
    ran = tmp_path / "ran"
    (folder / "custom_generate").mkdir()
    code = f"from pathlib import Path\nPath({str(ran)!r}).touch()\n"
    for name in ("custom_generate/generate.py", "modeling_gpt2.py", "__init__.py", "evil.py"):
        (folder / name).write_text(code)
    edit("generation_config.json", custom_generate="evil")(folder)
    edit(CONFIG, attn_implementation="owner/kernel", fusion_config={"x": True})(folder)
    trace = HuggingFaceModel.load(folder, "cpu").trace("The cat", new_tokens=2)
    assert len(trace.tgt_ids) > 2 and not ran.exists()


def test_torch_files(copied: Callable[[str], Path], made: dict[str, Pair]) -> None:
    torch_file(lambda state: state, "pytorch_model.bin")(folder := copied("bart"))
    first, other = (
        each.trace("A dog runs.", "Ein Hund.")
        for each in (made["bart"].ours, HuggingFaceModel.load(folder, "cpu"))
    )
    assert (other.cross == first.cross).all() and other.predicted_ids == first.predicted_ids


def test_files_of_older_tokenizers(copied: Callable[[str], Path]) -> None:
    """vocab.txt, and vocab.json with merges.txt, are equivalent to tokenizer.json."""
    for name in ("bert", "bart"):
        folder = copied(name)
        before = HuggingFaceModel.load(folder, "cpu").trace("The animal (it) was tired.")
        model = json.loads((folder / "tokenizer.json").read_text())["model"]
        remove("tokenizer.json")(folder)
        edit(SETTINGS, tokenizer_class=..., backend=...)(folder)
        if name == "bert":
            pieces = sorted(model["vocab"], key=model["vocab"].get)
            (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
        else:
            (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
            merges = (" ".join(pair) for pair in model["merges"])
            (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
        after = HuggingFaceModel.load(folder, "cpu").trace("The animal (it) was tired.")
        assert after.src_tokens == before.src_tokens


def test_settings_name_no_other_file(copied: Callable[[str], Path], tmp_path: Path) -> None:
    folder, other = copied("m2m100"), tmp_path / "other.json"
    other.write_text((folder / "vocab.json").read_text())
    (folder / "vocab.json").unlink()
    edit(SETTINGS, vocab_file=str(other), spm_file="/etc/hostname")(folder)
    with pytest.raises(CheckpointError, match="the tokenizer cannot be read"):
        HuggingFaceModel.load(folder, "cpu")


def test_tokenizers_that_do_not_fit(copied: Callable[[str], Path]) -> None:
    folder = copied("bert")
    truncation = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    edit("tokenizer.json", truncation=truncation)(folder)
    trace = HuggingFaceModel.load(folder, "cpu").trace("A dog runs across the green grass.")
    assert len(trace.src_ids) > 8
    shutil.copy(copied("gpt2") / "tokenizer.json", folder)
    with pytest.raises(CheckpointError, match=r"tokenizer has \d+ pieces, but the model's"):
        HuggingFaceModel.load(folder, "cpu")


def test_no_network(made: dict[str, Pair], monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    asked: list[object] = []
    models = [made[name].folder for name in ("bart", "bert", "gpt2", "m2m100")]

    def refuse(*arguments: object, **_: object) -> Any:
        asked.append(arguments)
        raise OSError("no network")

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    for folder in models:
        HuggingFaceModel.load(folder, "cpu").trace("A dog runs.", max_length=3)
    assert not asked


def test_loading_is_quiet(made: dict[str, Pair], capfd: pytest.CaptureFixture[str]) -> None:
    transformers.logging.set_verbosity_warning()
    transformers.logging.enable_progress_bar()
    folder = made["bart"].folder
    capfd.readouterr()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        HuggingFaceModel.load(folder, "cpu").trace("A dog.", beam_size=2)
    assert not seen and capfd.readouterr() == ("", "")


def test_commands_work_with_the_librarys_models_or_say_what_does(
    made: dict[str, Pair], tmp_path: Path, command: Command, tiny_checkpoint: Path
) -> None:
    t5, gpt2, out = made["t5"].folder, made["gpt2"].folder, tmp_path / "it.npz"
    for folder in (t5, gpt2):
        assert command("trace", "--checkpoint", folder, "--src", "The cat", "--out", out).out
        trace = HuggingFaceModel.load(folder, "cpu").trace("The cat")
        np.testing.assert_array_equal(load_arrays(out).decoder_self, trace.decoder_self)
    said = command("complete", "The cat", "--checkpoint", gpt2, "--tokens", 4).out
    assert said.strip() == made["gpt2"].ours.trace("The cat", beam_size=1, new_tokens=4).text
    said = command("translate", "The cat", "A dog.", "--checkpoint", t5).out
    assert said.splitlines() == [
        each.text for each in made["t5"].ours.translate(["The cat", "A dog."])
    ]
    assert "translates nothing" in command("translate", "x", "--checkpoint", gpt2).refused
    edited = command("translate", "x", "--edit", "no positions", "--checkpoint", t5).refused
    assert "“no positions”: This model is run by the transformers library" in edited
    said = command("translate", "x " * 600, "--checkpoint", t5).refused
    assert "line 1: the sentence has" in said
    for name in ("src", "ref.de"):
        (tmp_path / name).write_text("A dog.\n")
    files = ("--src", tmp_path / "src", "--ref", tmp_path / "ref.de")
    for arguments in (
        ("parse", "x", "--checkpoint"),
        ("evaluate", *files, "--checkpoint"), ("typed", "--checkpoint"), ("show",),
        ("measure", "--data", tmp_path), ("align", "--data", tmp_path, "--checkpoint"),
    ):  # fmt: skip
        refused = command(*arguments, t5).refused
        assert "a model of the transformers library; `trace` works" in refused, arguments
        refused = command(*arguments, made["marian"].folder).refused
        assert "python -m transformer import marian" in refused, arguments
    assert "does not continue texts" in command("complete", "x", "--checkpoint", t5).refused
    assert "an encoder-decoder; `translate`" in command("show", tiny_checkpoint).refused


def test_a_task_prefix_is_offered_and_never_added_silently(
    copied: Callable[[str], Path], tmp_path: Path, command: Command
) -> None:
    folder, german = copied("t5"), "translate English to German: "
    assert not inspect_entry(folder).prefixes
    tasks = {"summary": {"prefix": "summarize: "}, "odd": 1, "none": {"prefix": " "}}
    edit(CONFIG, prefix="ask: ", task_specific_params=tasks)(folder)
    edit("generation_config.json", task_specific_params={"de": {"prefix": german}})(folder)
    prefixes = inspect_entry(folder).prefixes
    assert prefixes == {"default": "ask: ", "summary": "summarize: ", "de": german}
    ours = HuggingFaceModel.load(folder, "cpu")
    plain, prefixed = (ours.translate([text])[0].text for text in ("A dog.", f"{german}A dog."))
    run = partial(command, "translate", "--checkpoint", folder)
    note = f"This model was trained with a task prefix, such as “{german}”; see --prefix-text\n"
    ran = run("A dog.", "A dog.")
    assert ran.out == f"{plain}\n{plain}\n" and ran.err.count(note) == 1
    for sentence, text, expected in (
        ("A dog.", german.strip(), prefixed),
        (f"{german}A dog.", "de", prefixed),
        ("A dog.", "the ", ours.translate(["the A dog."])[0].text),
    ):
        ran = run(sentence, "--prefix-text", text)
        assert ran.out == f"{expected}\n" and note not in ran.err
    to = ("--src", "A dog.", "--out", tmp_path / "it.npz", "--checkpoint", folder)
    assert command("trace", *to).err == note
    assert not command("trace", *to, "--prefix-text", "de").err
    assert load_arrays(tmp_path / "it.npz").source == f"{german}A dog."


def test_a_model_in_memory_is_that_of_its_folder(pair: Pair) -> None:
    theirs, cut = copy.deepcopy(pair.theirs).bfloat16().train(), pair.cut
    spoken = getattr(cut, "src_lang", None)
    made = HuggingFaceModel.of(theirs.float(), cut, "cpu", name="mine")
    given = {**options(pair), "max_length": 6}
    expected = HuggingFaceModel.of(copy.deepcopy(theirs).eval(), cut, "cpu").trace(
        SENTENCE, **given
    )
    trace = made.trace(SENTENCE, **given)
    assert (made.name, made.family, made.decoding) == ("mine", pair.ours.family, pair.ours.decoding)
    for kind in ATTENTION_KINDS:
        np.testing.assert_array_equal(trace.attention(kind), expected.attention(kind))
    loaded = pair.ours.trace(SENTENCE, **given)
    assert (trace.src_ids, trace.src_tokens) == (loaded.src_ids, loaded.src_tokens)
    # Weights were rounded to half precision.
    np.testing.assert_allclose(trace.encoder_self, loaded.encoder_self, atol=0.05)
    assert theirs.training and getattr(cut, "src_lang", None) == spoken
    fired: list[object] = []
    made.module.register_forward_hook(lambda *passed: fired.append(passed[0]))
    made.trace(SENTENCE, **given)
    assert fired
    with pytest.raises(InputError, match="forward hooks on `module`"):
        made.trace(SENTENCE, hooks=lambda site, value: None)


def test_many_sentences_are_traced_and_translated(translating: Pair) -> None:
    ours, given = translating.ours, {**options(translating), "max_length": 5}
    sentences = [SENTENCE, "A dog.", "Two men."]
    traces = ours.traces(iter(sentences), 2, **given)
    for sentence, trace in zip(sentences, traces, strict=True):
        alone = ours.trace(sentence, beam_size=2, **given)
        assert (trace.predicted_ids, trace.score) == (alone.predicted_ids, alone.score)
    found = ours.translate([sentences[0], " ", *sentences[1:]], 2, **given)
    assert found[1].text == "" and found.pop(1).complete
    for translation, trace in zip(found, traces, strict=True):
        assert (translation.text, translation.score) == (trace.text, trace.score)
        assert (*translation.ids, *trace.predicted_ids[len(translation.ids) :]) == (
            trace.predicted_ids
        )
        assert len(translation.ids) == trace.n_words
    with pytest.raises(InputError, match="sentence 2: the sentence is blank"):
        ours.traces(["A dog.", ""], **given)
    for many in (ours.traces, ours.translate):
        with pytest.raises(InputError, match="not one text"):
            many("A dog.")


def test_what_is_no_model_with_its_tokenizer_is_refused(made: dict[str, Pair]) -> None:
    gpt, bart = made["gpt2"], made["bart"]
    with pytest.raises(InputError, match=r"a GPT2Model cannot be traced; give a GPT2LMHeadModel"):
        HuggingFaceModel.of(gpt.theirs.base_model, gpt.cut, "cpu")
    with pytest.raises(InputError, match=r"a model of the transformers library, not .*Linear"):
        HuggingFaceModel.of(torch.nn.Linear(2, 2), gpt.cut, "cpu")
    with pytest.raises(InputError, match="not a tokenizer of the transformers library: 'bart'"):
        HuggingFaceModel.of(bart.theirs, "bart", "cpu")
    small = copy.deepcopy(bart.theirs)
    small.resize_token_embeddings(20)
    with pytest.raises(CheckpointError, match=r"mine: the tokenizer has .* pieces, but the model"):
        HuggingFaceModel.of(small, bart.cut, "cpu", name="mine")
    with pytest.raises(InputError, match="translates nothing"):
        gpt.ours.translate(["A dog."])


def test_a_traces_own_ids_can_be_passed_back(pair: Pair) -> None:
    given = {**options(pair), "max_length": 5}
    trace = pair.ours.trace(SENTENCE, **given)
    ids = trace.src_ids or trace.tgt_ids
    for how in (tuple, list, np.array, torch.tensor):
        again = pair.ours.trace(how(ids), **given)
        assert (again.src_ids, again.tgt_ids, again.predicted_ids) == (
            trace.src_ids, trace.tgt_ids, trace.predicted_ids,
        )  # fmt: skip
        for kind in ATTENTION_KINDS:
            np.testing.assert_array_equal(again.attention(kind), trace.attention(kind))
    if trace.src_ids and trace.tgt_ids:
        followed = pair.ours.trace(SENTENCE, np.array(trace.predicted_ids), **options(pair))
        assert followed.predicted_ids[: len(trace.predicted_ids)] == trace.predicted_ids
        np.testing.assert_allclose(followed.cross[:, :, :5], trace.cross, atol=1e-6)
    if (pad := pair.cut.pad_token_id) not in (None, pair.cut.eos_token_id):  # a batch's row
        padded = pair.ours.trace(torch.tensor([*ids, pad, pad]), **given)
        assert (padded.src_ids or padded.tgt_ids) == ids
    for wrong, said in (([], "0 tokens"), ([10**6], "token 1000000 cannot"), ([0.5], "token 0.5")):
        with pytest.raises(InputError, match=said):
            pair.ours.trace(wrong)


def test_a_randomised_model_has_the_same_shape_and_other_maps(made: dict[str, Any]) -> None:
    for family in ("bert", "t5"):
        ours = made[family].ours
        first, other = ours.trace("a b"), ours.randomised().trace("a b")
        for kind in ours.kinds:
            one, two = first.attention(kind), other.attention(kind)
            assert one.shape[:2] == two.shape[:2]
        assert not np.allclose(first.encoder_self, other.encoder_self)
        np.testing.assert_array_equal(first.encoder_self, ours.trace("a b").encoder_self)
