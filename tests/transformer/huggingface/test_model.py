"""Every family of the `transformers` library, compared with that library's own results."""

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.transformer.huggingface.models import (
    DECODERS,
    ENCODER_DECODERS,
    ENCODERS,
    EVERY,
    Pair,
    transformers,
)
from transformer.__main__ import main
from transformer.catalogue import inspect_entry, resolve
from transformer.errors import InputError
from transformer.huggingface.model import HuggingFaceModel
from transformer.trace.records import Trace
from transformer.trace.tracer import ABILITIES, Tracer
from transformer.types import ATTENTION_KINDS

pytestmark = pytest.mark.filterwarnings("ignore")  # those of transformers

SENTENCE = "The animal didn't cross the street."
TARGET = "Das Tier ging nicht."
#: Options of the call, and the first id for `generate`, by the tokenizer's name.
LANGUAGES = {
    "m2m100": ({"src_lang": "de", "tgt_lang": "ar"}, "__ar__"),
    "nllb": ({"src_lang": "fra_Latn", "tgt_lang": "arb_Arab"}, "arb_Arab"),
    "mbart": ({"src_lang": "en_XX", "tgt_lang": "ro_RO"}, "ro_RO"),
}
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
    return source, labels, begin


def options(pair: Pair) -> dict[str, Any]:
    return dict(LANGUAGES[pair.name][0]) if pair.name in LANGUAGES else {}


def assert_maps(trace: Trace, **expected: Any) -> None:
    for kind, layers in expected.items():
        theirs = torch.cat(layers).numpy()
        np.testing.assert_allclose(trace.attention(kind), theirs, atol=1e-6)  # type: ignore[arg-type]


def assert_predictions(trace: Trace, logits: torch.Tensor) -> None:
    """Compare log-probabilities, alternatives and entropy with logits, [T, V]."""
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
        score = trace.score
        forced_end = translating.theirs.generation_config.forced_eos_token_id is not None
        if len(trace.predicted_ids) == 9 and forced_end:  # which the library treats as certain
            score -= float(trace.log_probs[-1]) / 9**0.8
        assert score == pytest.approx(float(found.sequences_scores[0]), abs=1e-4)


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


@pytest.mark.parametrize("sentence", [SENTENCE, "Ω", *HOSTILE])
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
        if kind in pair.ours.kinds:
            np.testing.assert_allclose(maps.sum(-1), np.ones(maps.shape[:-1]), atol=1e-5)
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


def test_generation_settings_that_are_not_used_are_listed(
    made: dict[str, Pair], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(made["bart"].folder, tmp_path / "bart"))
    path = folder / "generation_config.json"
    more = {"num_beams": 6, "num_beam_groups": 3, "no_repeat_ngram_size": 3, "do_sample": False}
    path.write_text(json.dumps(json.loads(path.read_text()) | more))
    assert inspect_entry(made["bart"].folder).unused == ()
    assert inspect_entry(folder).unused == ("num_beams=6", "num_beam_groups=3")
    assert main(["info", str(folder)]) == 0
    assert "generation settings not used: num_beams=6, num_beam_groups=3" in capsys.readouterr().out


def test_a_model_of_two_others(made: dict[str, Pair], tmp_path: Path) -> None:
    """An encoder and a decoder from two models: BERT to BERT."""
    folder = made["bert"].folder
    encoder = transformers.BertConfig.from_pretrained(folder)
    decoder = transformers.BertConfig.from_pretrained(
        folder, is_decoder=True, add_cross_attention=True, num_hidden_layers=2
    )
    config = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
    config.decoder_start_token_id, config.pad_token_id, config.eos_token_id = 2, 0, 3
    transformers.EncoderDecoderModel(config).save_pretrained(tmp_path / "both")
    made["bert"].cut.save_pretrained(tmp_path / "both")
    trace = HuggingFaceModel.load(tmp_path / "both", "cpu").trace(SENTENCE, "A dog runs.")
    assert [trace.attention(kind).shape[0] for kind in ATTENTION_KINDS] == [3, 2, 2]
    assert trace.predicted_tokens[-1] == "[SEP]"


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


@pytest.mark.parametrize("seed", range(2))
def test_a_models_own_settings_of_search_are_honoured(seed: int, tmp_path: Path) -> None:
    """BART's files force an end; others forbid repeated n-grams and short texts."""
    torch.manual_seed(seed)
    theirs, cut = EVERY["bart"](tmp_path / "it")
    for parameter in theirs.parameters():  # spread, so that beams differ
        parameter.data.normal_(0, 0.6)
    own = {
        "forced_eos_token_id": 2, "no_repeat_ngram_size": 2, "min_length": 4,
        "early_stopping": True, "length_penalty": 2.0, "num_beams": 4, "repetition_penalty": 1.2,
    }  # fmt: skip
    theirs.generation_config.update(**own)
    theirs.save_pretrained(tmp_path / "it")
    ours = HuggingFaceModel.load(tmp_path / "it", device="cpu")
    theirs = theirs.eval()
    for sentence in ("A dog runs.", SENTENCE):
        given = cut(sentence, return_tensors="pt")
        for longest in (6, 12):
            found = theirs.generate(**given, num_beams=4, max_new_tokens=longest, max_length=None)
            trace = ours.trace(sentence, beam_size=4, max_length=longest)
            ids = found[0, 1:].tolist()
            ends = ids.index(2) + 1 if 2 in ids else len(ids)
            assert list(trace.predicted_ids) == ids[:ends]
