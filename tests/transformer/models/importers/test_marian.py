import json
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.transformer.damage import INDEX, PARTS, edit, split
from tests.transformer.models.huggingface import models
from tests.transformer.models.importers.reference import (
    ENGLISH,
    Pair,
    Passed,
    SameModel,
    check_pass,
    imported,
)
from transformer.checkpoint.folder import load_checkpoint
from transformer.execution.packed import PackedDecoder
from transformer.execution.steps import PackedSteps
from transformer.models.catalogue import inspect_entry
from transformer.models.importers.registry import FORMATS
from transformer.models.importers.settings import GENERATING
from transformer.search.beam import search
from transformer.search.reader import Reader
from transformer.search.request import SearchOptions, default_decoding, search_request
from transformer.search.rules import Sampling, hugging_face
from transformer.translator import Translator
from transformer.types import CheckpointError, InputError

pytestmark = pytest.mark.filterwarnings("ignore")  # those of transformers


class Library:
    def __init__(self, folder: Path, model: Any = None) -> None:
        self.model = model or models.marian_model(folder)
        self.cut = models.transformers.MarianTokenizer.from_pretrained(folder)

    def __call__(self, src: Tensor, tgt_in: Tensor) -> Passed:
        found = self.model(
            input_ids=src, attention_mask=(src != self.model.config.pad_token_id).long(),
            decoder_input_ids=tgt_in, output_attentions=True,
        )  # fmt: skip
        maps = (found.encoder_attentions, found.decoder_attentions, found.cross_attentions)
        return Passed(found.encoder_last_hidden_state, found.logits, *map(torch.stack, maps))


@pytest.fixture(scope="module", params=models.SHAPES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp("marian")
    models.make_folder(folder / "theirs", request.param)
    return opened_by_both(folder)


class TestSameModel(SameModel):
    pass


def found_by_both(
    pair: Pair, beam: int, penalty: float, n_new: int, early: Any, **more: Any
) -> list[tuple[list[list[int]], list[list[int]]]]:
    """Return every hypothesis for every sentence, theirs and ours, without padding."""
    config, pad = pair.ours.config, pair.theirs.model.config.pad_token_id
    both = []
    for text in ENGLISH[:3]:
        ids = torch.tensor([pair.ours.read(text).ids])
        made = pair.theirs.model.generate(
            input_ids=ids, num_beams=beam, num_return_sequences=beam, max_new_tokens=n_new,
            max_length=None, length_penalty=penalty, early_stopping=early, do_sample=False,
            return_dict_in_generate=True, output_scores=True, **more,
        )  # fmt: skip
        theirs = [[each for each in row[1:] if each != pad] for row in made.sequences.tolist()]
        reader = Reader(config, pair.ours.tokenizer, 100, 50)
        options: SearchOptions = {"allow_unknown": True, "rule": hugging_face(early)}
        settings = search_request(reader, beam, penalty, options, top_k=3).settings
        encoded = pair.ours.model.encode(ids)
        with torch.inference_mode():
            steps = PackedSteps(PackedDecoder(pair.ours.model), encoded)
            found = search(steps, [n_new], settings)[0]
        if beam > 1:
            scores = [each.score for each in found.hypotheses]
            np.testing.assert_allclose(scores, made.sequences_scores, rtol=1e-5, atol=1e-4)
        both.append((theirs, [list(each.ids) for each in found.hypotheses]))
    return both


@pytest.mark.parametrize(("beam", "penalty", "n_new", "early"), [
    (1, 1.0, 14, False), (4, 1.0, 14, False), (4, 0.0, 10, True), (3, 2.0, 10, "never"),
])  # fmt: skip
def test_generates_the_same(pair: Pair, beam: int, penalty: float, n_new: int, early: Any) -> None:
    found = found_by_both(pair, beam, penalty, n_new, early)
    for theirs, ours in found:
        assert ours == theirs
    if penalty == 1 and pair.ours.config.n_heads == 3 and pair.ours.config.tie_embeddings == "all":
        # Some end by themselves, others at the limit.
        assert len({len(ours[0]) for _, ours in found}) > 1


def test_sentences_are_cut_alike(pair: Pair) -> None:
    pad, eos = pair.ours.config.pad_id, pair.ours.config.eos_id
    for text in (
        *ENGLISH, "", "  a   cat ", "the caat 漢字 sat", ">>fra<< The cat sat.", ">>deu<<A dog",
        ">>xyz<< unknown tag", "a >>fra<< later", "▁the", "ﬁne ½ Å e\u0301", " >>fra<< a",
        *models.typed_texts(500),
    ):  # fmt: skip
        cut = pair.ours.tokenize(text)
        assert [*cut.ids, eos] == pair.theirs.cut(text).input_ids
        assert all(cut.ids[each] == pair.theirs.cut.unk_token_id for each in cut.unknown)
        target = pair.ours.tokenizer.target.tokenize(text)
        if not text.startswith(">>"):
            assert [*target.ids, eos] == pair.theirs.cut(text_target=text).input_ids
    for text in models.GERMAN:
        ids = pair.ours.tokenizer.target.encode(text)
        assert pair.ours.tokenizer.target.decode(ids) == pair.theirs.cut.decode(ids) == text
    # Special tokens typed as text are text here; Hugging Face obeys them.
    assert not {pad, eos} & {*pair.ours.tokenize("<pad> </s>x").ids}
    tagged = pair.ours.tokenize(f"{models.TAGS[1]} The cat sat.")
    assert tagged.pieces == (models.TAGS[1], *pair.ours.tokenize("The cat sat.").pieces)
    assert pair.ours.tokenizer.id_to_piece(tagged.ids[0]) == models.TAGS[1]


ADDED = ["covid19", "<ent>", "New York", models.TAGS[0]]


def with_added(folder: Path, shape: str, how: str) -> Any:
    """Store added tokens in a file, one special and one already in the vocabulary."""
    model = models.make_folder(folder, shape)
    cut = models.transformers.MarianTokenizer.from_pretrained(folder)
    cut.add_tokens([ADDED[0], ADDED[2], ADDED[3]])
    cut.add_special_tokens({"additional_special_tokens": [ADDED[1]]})
    model.resize_token_embeddings(len(cut))
    model.save_pretrained(folder)
    cut.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text())
    given = settings.pop("added_tokens_decoder")
    if how == "added_tokens.json":
        settings["additional_special_tokens"] = [ADDED[1]]
        named = {each["content"]: int(index) for index, each in given.items()}
        (folder / how).write_text(json.dumps(named))
    elif how == "tokenizer.json":
        listed = [{"id": int(index), **each} for index, each in given.items()]
        (folder / how).write_text(json.dumps({"added_tokens": listed}))
    if how != path.name:
        path.write_text(json.dumps(settings))
    return models.marian_model(folder)


@pytest.mark.parametrize(("shape", "how"), [
    ("tied, unequal depths", "tokenizer_config.json"),
    ("tied, unequal depths", "added_tokens.json"),
    ("a decoder of its own shape", "tokenizer.json"),
])  # fmt: skip
def test_added_tokens_are_found_before_text_is_cut(tmp_path: Path, shape: str, how: str) -> None:
    with_added(tmp_path / "theirs", shape, how)
    pair = opened_by_both(tmp_path)
    again = Translator.load(tmp_path / "ours", "cpu").tokenizer
    for text in (
        "the covid19 cat", "covid19", "a New York<ent>dog", "covid19>>deu<<New Yorkcovid19 ?",
        ">>fra<< the covid19", "covid1 9", "<ent> >>fra<< a", *models.typed_texts(60),
    ):  # fmt: skip
        cut = pair.ours.tokenize(text)
        assert [*cut.ids, pair.ours.config.eos_id] == pair.theirs.cut(text).input_ids, text
        assert again.tokenize(text) == cut and len(cut.pieces) == len(cut.surfaces) == len(cut.ids)
        theirs = pair.theirs.cut.decode(cut.ids, skip_special_tokens=True)
        ours = pair.ours.tokenizer.decode(cut.ids).replace("⁇", "")
        assert ours.replace(" ", "") == theirs.replace(" ", "").replace("⁇", ""), text
    pieces = pair.ours.tokenize("the covid19 cat<ent>").pieces
    assert "▁covid19" in pieces and pieces[-1] == "<ent>"
    assert not any("no piece" in piece for piece in pair.ours.tokenizer.pieces)
    check_pass(pair)


def test_added_tokens_beside_separate_vocabularies(tmp_path: Path) -> None:
    """The library gives them ids after the source's, which may be pieces of the target."""
    with_added(tmp_path / "theirs", "separate vocabularies", "added_tokens.json")
    pair = opened_by_both(tmp_path)
    target = json.loads((tmp_path / "theirs" / "target_vocab.json").read_text())
    for text in (
        "the covid19 cat",
        "a New York<ent>dog",
        ">>fra<< the covid19",
        *models.typed_texts(20),
    ):
        ids = [*pair.ours.tokenize(text).ids, pair.ours.config.eos_id]
        assert ids == pair.theirs.cut(text).input_ids, text
    tables = pair.ours.tokenizer.pieces, pair.ours.tokenizer.target.pieces
    assert "covid19" in tables[0] and all(
        tables[1][index] == name for name, index in target.items()
    )
    check_pass(pair)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision(tmp_path: Path, dtype: str) -> None:
    model = models.make_folder(tmp_path / "theirs", "tied, unequal depths").to(
        getattr(torch, dtype)
    )
    model.save_pretrained(tmp_path / "theirs")
    pair = opened_by_both(tmp_path)
    assert pair.ours.config.positions == "sinusoidal"
    assert inspect_entry(tmp_path / "ours").metrics["stored_as"] == dtype
    size = (tmp_path / "ours" / "model.safetensors").stat().st_size
    assert size < 2.6 * pair.ours.config.n_parameters
    check_pass(pair)


@pytest.mark.parametrize("ending", ["safetensors", "bin"])
def test_several_files_hold_what_one_does(tmp_path: Path, ending: str) -> None:
    models.make_folder(tmp_path / "theirs", "separate vocabularies")
    made = FORMATS["marian"]
    one = load_checkpoint(made.convert(tmp_path / "theirs", tmp_path / "one")).model.state_dict()
    split(ending)(tmp_path / "theirs")
    several = load_checkpoint(made.convert(tmp_path / "theirs", tmp_path / "several")).model
    torch.testing.assert_close(dict(several.state_dict()), dict(one), rtol=0, atol=0)
    assert all(any(fnmatchcase(name, each) for each in made.files) for name in (INDEX, *PARTS))


def opened_by_both(folder: Path) -> Pair:
    return imported(Library(folder / "theirs"), folder, "marian")


def stored_with(folder: Path, state: dict[str, Tensor]) -> Pair:
    """Return both models after replacing the weights in `theirs`."""
    (folder / "theirs" / "model.safetensors").unlink()
    torch.save(state, folder / "theirs" / "pytorch_model.bin")
    return opened_by_both(folder)


TABLES = tuple(f"model.{stack}.embed_positions.weight" for stack in ("encoder", "decoder"))


@pytest.mark.parametrize(("shape", "dtype", "tables", "said"), [
    ("a decoder of its own shape", "float16", TABLES, "16 bits each, as float16 (largest"),
    ("separate and untied", "bfloat16", TABLES, "16 bits each, as bfloat16 (largest"),
    ("tied, unequal depths", "bfloat16", TABLES[1:], "the encoder's holds exactly"),
])  # fmt: skip
def test_stored_sinusoids_are_computed_with_as_they_are(
    tmp_path: Path, shape: str, dtype: str, tables: tuple[str, ...], said: str
) -> None:
    state = models.make_folder(tmp_path / "theirs", shape).to(getattr(torch, dtype)).state_dict()
    for name in set(TABLES) - set(tables):
        del state[name]
    pair = stored_with(tmp_path, state)
    check_pass(pair)
    assert inspect_entry(tmp_path / "ours").metrics["stored_as"] == dtype
    assert said in (tmp_path / "ours" / "README.md").read_text()
    assert pair.ours.config.n_parameters == pair.ours.model.n_parameters
    with pytest.raises(InputError, match="at most 80"):
        pair.ours.translate(["the cat " * 90])


def test_an_odd_width_has_one_more_sine_than_cosines(tmp_path: Path) -> None:
    models.make_folder(tmp_path / "theirs", "separate vocabularies", d_model=21)
    check_pass(opened_by_both(tmp_path))


@pytest.mark.parametrize("trained", [False, True])
def test_positions_that_are_no_sinusoids_are_kept(tmp_path: Path, trained: bool) -> None:
    state = models.make_folder(tmp_path / "theirs", "tied, unequal depths").state_dict()
    for name in TABLES:
        state[name].normal_()
    if trained:
        edit("config.json", static_position_embeddings=False)(tmp_path / "theirs")
    pair = stored_with(tmp_path, state)
    assert pair.ours.config.positions == ("learned" if trained else "stored")
    check_pass(pair)
    assert ("no sinusoids" in (tmp_path / "ours" / "README.md").read_text()) is not trained


def test_what_decoding_settings_say_is_done(tmp_path: Path) -> None:
    theirs = models.make_folder(tmp_path / "theirs", "tied, unequal depths")
    pad = theirs.config.pad_token_id
    settings = {
        "bad_words_ids": [[pad], [7], [9]], "renormalize_logits": True, "suppress_tokens": [11, 9],
        "forced_eos_token_id": None, "decoder_start_token_id": 7,  # not as in config.json
    }  # fmt: skip
    edit("generation_config.json", **settings)(tmp_path / "theirs")
    ours = Translator.load(FORMATS["marian"].convert(tmp_path / "theirs", tmp_path / "ours"), "cpu")
    assert ours.config.suppressed_ids == (7, 9, 11) and ours.config.bos_id == 7
    assert ours.config.renormalise and not ours.config.forced_eos
    theirs.generation_config.update(**settings)
    theirs.generation_config.forced_eos_token_id = None
    pair = Pair("marian", Library(tmp_path / "theirs", theirs), ours)
    for found, expected in found_by_both(pair, 4, 1.0, 8, False):
        assert expected == found
    step = ours.trace(ENGLISH[1], beam_size=1, top_k=100)
    assert not {pad, 7, 9} & set(step.top_ids[step.top_log_probs > -1e9].tolist())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("renormalise", [False, True])
def test_banned_words_and_negative_penalties_are_the_librarys(
    seed: int, renormalise: bool, tmp_path: Path
) -> None:
    theirs = models.make_folder(tmp_path / "theirs", "tied, unequal depths", seed)
    pad, eos = theirs.config.pad_token_id, theirs.config.eos_token_id
    theirs.final_logits_bias[0, eos] = 1.0  # for longer translations
    theirs.save_pretrained(tmp_path / "theirs")
    pair = opened_by_both(tmp_path)
    # The beginnings of a first search, so that the bans matter.
    first = [row for _, rows in found_by_both(pair, 3, 1.0, 9, False) for row in rows]
    words = [row[at : at + n] for row in first for at, n in ((0, 2), (2, 3)) if len(row) >= at + n]
    settings = {
        "bad_words_ids": [[pad], [eos], *words, [eos, pad], [5, 6, 7, 8]],
        "renormalize_logits": renormalise, "length_penalty": -1.5, "early_stopping": "never",
    }  # fmt: skip
    edit("generation_config.json", **settings)(tmp_path / "theirs")
    (tmp_path / "ours").rename(tmp_path / "first")
    pair = opened_by_both(tmp_path)
    assert pair.ours.decoding.alpha == -1.5 and pair.ours.config.suppressed_words[2:]
    pair.theirs.model.generation_config.update(**settings)
    for beam, penalty, early in (
        (1, -1.5, False), (2, -0.5, "never"), (3, -3.0, False), (4, -1.5, True), (5, 1.0, "never"),
    ):  # fmt: skip
        for found, expected in found_by_both(pair, beam, penalty, 9, early):
            assert expected == found and not any(row in first for row in found)
    # A sampled token is no banned one either.
    for drawn in range(5):
        sampling = Sampling(seed=drawn)
        ids = pair.ours.translate([ENGLISH[1]], 1, sampling=sampling, max_length=9)[0].ids
        assert not {ids[at : at + n] for at in range(9) for n in (2, 3)} & {*map(tuple, words)}


@pytest.mark.parametrize("name", ["generation_config.json", "config.json"])
def test_settings_that_are_not_done_are_told(name: str, tmp_path: Path) -> None:
    theirs = models.make_folder(tmp_path / "theirs", "tied, unequal depths")
    if name == "config.json":
        (tmp_path / "theirs" / "generation_config.json").unlink()
    # A ban of the end and of an unknown id leaves the others.
    settings = {"suppress_tokens": [11, 0, 9, 10**6], "eos_token_id": [0, 5], "min_length": 0}
    settings |= {"no_repeat_ngram_size": 2, "max_length": 60, "forced_eos_token_id": ...}
    edit(name, **settings, repetition_penalty=1.0)(tmp_path / "theirs")
    FORMATS["marian"].convert(tmp_path / "theirs", tmp_path / "ours")
    card = (tmp_path / "ours" / "README.md").read_text()
    named = ("suppress_tokens=[0]", "eos_token_id=[0, 5]", "no_repeat_ngram_size=2")
    entry = inspect_entry(tmp_path / "ours")
    assert f"no effect here: {', '.join(f'`{each}`' for each in entry.unused)}." in card
    assert {*entry.unused} == {*named, "max_length=60"}
    library = type(theirs).from_pretrained(tmp_path / "theirs").generation_config
    assert entry.config is not None and entry.config.suppressed_ids == (9, 11)
    assert entry.config.forced_eos is bool(library.forced_eos_token_id) is False


@pytest.mark.parametrize("value", ["x", {"a": 1}, [["x"]], -7, 1e300, 10**12, True, [], None])
@pytest.mark.parametrize("name", ["generation_config.json", "config.json"])
def test_a_bad_setting_is_listed_and_the_model_opens(name: str, value: Any, tmp_path: Path) -> None:
    models.make_folder(tmp_path / "theirs", "separate vocabularies")
    if name == "config.json":
        (tmp_path / "theirs" / "generation_config.json").unlink()
    edit(name, **dict.fromkeys(GENERATING, value))(tmp_path / "theirs")
    ours = Translator.load(FORMATS["marian"].convert(tmp_path / "theirs", tmp_path / "ours"), "cpu")
    assert len(ours.translate(["A dog."], max_length=4)[0].ids) <= 4
    listed = {said.partition("=")[0] for said in inspect_entry(tmp_path / "ours").unused}
    if value in ("x", {"a": 1}, [["x"]]):
        assert listed == {*GENERATING}
    assert bool(listed) == (value is not None)


@pytest.mark.parametrize("own", [
    {"num_beams": 6}, {"num_beams": 3, "length_penalty": 0.0, "early_stopping": True},
    {"num_beams": 2, "length_penalty": 2.5, "early_stopping": "never"}, {"num_beams": 1}, {},
], ids=str)  # fmt: skip
def test_a_models_own_decoding_is_the_default(own: dict[str, Any], tmp_path: Path) -> None:
    theirs = models.make_folder(tmp_path / "theirs", "separate and untied")
    edit("generation_config.json", **own)(tmp_path / "theirs")
    ours = Translator.load(FORMATS["marian"].convert(tmp_path / "theirs", tmp_path / "ours"), "cpu")
    card = (tmp_path / "ours" / "README.md").read_text()
    assert f"own decoding is the default here: {ours.decoding}." in card
    assert ours.decoding == default_decoding(inspect_entry(tmp_path / "ours").metrics)
    for text in ENGLISH[:3]:
        made = theirs.generate(
            torch.tensor([ours.read(text).ids]), **own, max_new_tokens=12, max_length=None,
            do_sample=False,
        )  # fmt: skip
        trace = ours.trace(text, max_length=12, allow_unknown=True)
        found = ours.translate([text], max_length=12, allow_unknown=True)[0]
        assert list(trace.predicted_ids) == made[0, 1:].tolist()
        assert list(found.ids) == list(trace.predicted_ids)[: len(found.ids)]
        assert found.score == pytest.approx(trace.score)


def test_ids_without_a_piece_have_rows_all_the_same(tmp_path: Path) -> None:
    """Embeddings may be padded to a round number, or a piece deleted."""
    theirs = models.make_folder(tmp_path / "theirs", "tied, unequal depths")
    path = tmp_path / "theirs" / "vocab.json"
    ids = json.loads(path.read_text())
    path.write_text(json.dumps({piece: index for piece, index in ids.items() if index != 40}))
    pair = opened_by_both(tmp_path)
    assert pair.ours.tokenizer.pieces[40] == "<no piece 40>"
    assert 40 not in pair.ours.tokenize("<no piece 40>").ids
    check_pass(pair)
    for found, expected in found_by_both(pair, 4, 1.0, 8, False):
        assert expected == found
    path.write_text(json.dumps({piece: index for piece, index in ids.items() if index % 5}))
    with pytest.raises(CheckpointError, match=rf"pieces, but config.json requires {len(ids)}"):
        FORMATS["marian"].convert(tmp_path / "theirs", tmp_path / "again")
    assert theirs.config.vocab_size == len(ids)
