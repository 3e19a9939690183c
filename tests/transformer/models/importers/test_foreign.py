import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sentencepiece as spm
import torch
from sacremoses import MosesTokenizer

from tests.transformer.damage import edit
from tests.transformer.models.huggingface.models import typed_texts
from tests.transformer.models.importers import reference
from tests.transformer.models.importers.foreign import (
    ENGLISH,
    FAIRSEQ,
    GERMAN,
    JOEYNMT,
    MODELS,
    fairseq,
    joeynmt,
    written,
)
from transformer.checkpoint.weights import off_formula
from transformer.config import ModelConfig
from transformer.models.catalogue import inspect_entry
from transformer.models.importers.fairseq import read_dictionary
from transformer.models.importers.registry import FORMATS
from transformer.positions import sinusoids
from transformer.search.request import Decoding
from transformer.search.rules import PAPER
from transformer.text.table import Numbered
from transformer.text.tokenizer import Preparation
from transformer.translator import Translator

MAKERS: dict[str, Callable[..., reference.Reference]] = {"fairseq": fairseq, "joeynmt": joeynmt}


def make_pair(folder: Path, kind: str, shape: str, **changes: Any) -> reference.Pair:
    return reference.imported(MAKERS[kind](folder / "theirs", shape, **changes), folder, kind)


@pytest.fixture(
    scope="module",
    params=[*(("fairseq", shape) for shape in FAIRSEQ), *(("joeynmt", shape) for shape in JOEYNMT)],
    ids=lambda param: f"{param[0]}: {param[1]}",
)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> reference.Pair:
    return make_pair(tmp_path_factory.mktemp("foreign"), *request.param)


class TestSameModel(reference.SameModel):
    pass


@pytest.mark.parametrize("shape", ["post-norm, all shared", "positions of both kinds"])
def test_an_odd_width_of_fairseq_ends_in_a_column_of_zeros(tmp_path: Path, shape: str) -> None:
    width = {"encoder_embed_dim": 21, "decoder_embed_dim": 21}
    pair = make_pair(tmp_path, "fairseq", shape, **width)
    assert not sinusoids(pair.ours.config)[:, -1].any()
    reference.check_pass(pair)


def test_a_dictionary_may_overwrite_its_pieces(tmp_path: Path) -> None:
    path = tmp_path / "dict.txt"
    path.write_text("cat 9\ndog 7\ncat 3 #fairseq:overwrite\n<pad> 1 #fairseq:overwrite\nend 1\n")
    pieces = read_dictionary(path)
    assert (pieces.index("cat"), pieces.index("<pad>"), len(pieces)) == (6, 1, 9)
    assert pieces[4:] == ("<no piece 4>", "dog", "cat", "<no piece 7>", "end")


def test_known_sentences_are_cut_and_joined(pair: reference.Pair) -> None:
    if pair.ours.tokenizer.kind == "word":
        return  # text is cut already
    for tokenizer, texts in ((pair.ours.tokenizer, ENGLISH), (pair.ours.tokenizer.target, GERMAN)):
        for text in texts:
            cut = tokenizer.tokenize(text)
            assert not cut.unknown and not {0, 1, 2, 3} & {*cut.ids}
            assert tokenizer.decode(cut.ids).lower() == text.lower()


def test_text_that_is_cut_already(tmp_path: Path) -> None:
    pair = make_pair(tmp_path, "fairseq", "positions of both kinds")
    pieces = [p for p in pair.ours.tokenizer.pieces[4:] if p.isalpha() or p[:-2].isalpha()]
    inside = next(piece for piece in pieces if piece.endswith("@@"))
    ending = next(piece for piece in pieces if not piece.endswith("@@"))
    cut = pair.ours.tokenize(f"{inside} {ending} {ending}")
    assert cut.pieces == (f"▁{inside[:-2]}", ending, f"▁{ending}")
    assert not cut.unknown
    assert pair.ours.tokenizer.decode(cut.ids) == f"{inside[:-2]}{ending} {ending}"


def test_merges_come_after_moses(tmp_path: Path) -> None:
    pair = make_pair(tmp_path, "fairseq", "post-norm, all shared")
    shown = "".join(pair.ours.tokenize("The animal didn't cross the street.").pieces)
    assert "didn▁&apos;t" in shown and shown.endswith("street▁.")
    plain = FORMATS["fairseq"].convert(tmp_path / "theirs", tmp_path / "plain", moses=False)
    assert "".join(Translator.load(plain, device="cpu").tokenize("didn't.").pieces) == "▁didn't."


def test_pieces_that_the_vocabulary_lacks_are_not_made(tmp_path: Path) -> None:
    pair = make_pair(tmp_path, "joeynmt", "pre-norm, other ids")
    table = (tmp_path / "theirs" / "src_vocab.txt").read_text().split("\n")
    processor = spm.SentencePieceProcessor(str(tmp_path / "theirs" / "sp.en.model"))
    whole = [processor.encode(text, out_type=str) for text in ENGLISH]
    assert not {piece for pieces in whole for piece in pieces} <= {*table}
    for text, pieces in zip(ENGLISH, whole, strict=True):
        cut = pair.ours.tokenize(text)
        assert "".join(cut.pieces) == "".join(pieces)
        assert all(piece in table or len(piece) == 1 for piece in cut.pieces)
        if {*pieces} <= {*table}:
            assert list(cut.pieces) == pieces
    config = pair.ours.config
    assert (config.pad_id, config.bos_id, config.eos_id, config.unk_id) == (0, 1, 2, 3)
    assert pair.ours.tokenizer.pieces[3] == "<?>"


MARKED = {"lang_tags": ["<de>", "<fr>"], "sep_token": "<sep>", "sep_id": 4}


def test_tags_of_joeynmt_are_one_piece_and_no_text(tmp_path: Path) -> None:
    """SentencePiece keeps tags whole; the translation follows the separator, without tags."""
    pair = make_pair(tmp_path, "joeynmt", "pre-norm, other ids",
                     special={**JOEYNMT["pre-norm, other ids"]["special"], **MARKED})  # fmt: skip
    again = Translator.load(pair.ours.path, device="cpu")
    processor = spm.SentencePieceProcessor(str(tmp_path / "theirs" / "sp.en.model"))
    for tokenizer in (pair.ours.tokenizer, again.tokenizer):
        plain = tokenizer.tokenize("a dog")
        cut = tokenizer.tokenize("<de> a dog")
        assert cut.pieces == ("<de>", *plain.pieces)
        assert cut.ids == (tokenizer.pieces.index("<de>"), *plain.ids)
        assert cut.surfaces[0] == "<de>" and not cut.unknown
        inside = tokenizer.tokenize("a <fr> dog").pieces
        assert list(inside) == processor.encode("a <fr> dog", out_type=str)
        named = {piece: index for index, piece in enumerate(tokenizer.target.pieces)}
        ein = tokenizer.target.encode("ein")
        begun = [named["<fr>"], *ein, named["<sep>"]]
        assert tokenizer.target.decode([*begun, named["<de>"], *ein]) == "ein"
        assert tokenizer.target.decode([named["<de>"], *ein, *ein]) == "ein ein"
    assert again.trace("<fr> a dog", beam_size=1).src_tokens[0] == "<fr>"
    edit("tokenizer_rules.json", tag=[])(pair.ours.path)
    assert "rules.json: unknown setting 'tag'" in str(inspect_entry(pair.ours.path).error)


@pytest.mark.parametrize("cut", ["merges", "char", "old"])
def test_tags_of_joeynmt_without_sentencepiece(tmp_path: Path, cut: str) -> None:
    """Other tokenizers split typed tags like words, unless the text is segmented."""
    shape = "post-norm, separate"
    special = {**JOEYNMT[shape].get("special", {}), **MARKED}
    pair = make_pair(tmp_path, "joeynmt", shape, cut=cut, special=special)
    tokenizer = Translator.load(pair.ours.path, device="cpu").tokenizer
    tag, target = tokenizer.piece_to_id("<de>"), tokenizer.target
    assert tag != tokenizer.unk_id
    assert (tokenizer.tokenize("<de> dog").ids[0] == tag) == (cut == "old")
    dog = target.encode("ein")
    assert target.decode([target.piece_to_id("<de>"), *dog]) == target.decode(dog)


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_in_an_old_file(tmp_path: Path, kind: str, dtype: str) -> None:
    """Torch files from before 2020 are not archives."""
    make, shape, name = MODELS[kind]
    theirs = make(tmp_path / "theirs", shape)
    key = {"fairseq": "model", "joeynmt": "model_state"}[kind]
    path = tmp_path / "theirs" / name
    content = written(path)
    half = {name: each.to(getattr(torch, dtype)) for name, each in content[key].items()}
    torch.save({**content, key: half}, path, _use_new_zipfile_serialization=False)
    theirs.tensors = {name: half.get(name, each).float() for name, each in theirs.tensors.items()}
    if kind == "joeynmt":  # whose sinusoids are stored with the weights, and rounded like them
        theirs.positions = lambda stack, n: half[f"{stack}.pe.pe"][0, :n].float()
    ours = Translator.load(FORMATS[kind].convert(path, tmp_path / "ours"), device="cpu")
    assert inspect_entry(tmp_path / "ours").metrics["stored_as"] == dtype
    assert ours.config.positions == ("stored" if kind == "joeynmt" else "sinusoidal")
    src, tgt_in = reference.batch(ours)
    torch.testing.assert_close(
        ours.model(src, tgt_in), theirs(src, tgt_in).logits, **reference.CLOSE
    )


def test_joeynmts_own_arithmetic_makes_no_stored_table(tmp_path: Path) -> None:
    """JoeyNMT computes sinusoids in float32, so angles of late positions lose digits."""
    joeynmt(tmp_path / "theirs", "post-norm, separate")
    (path,) = (tmp_path / "theirs").glob("*.ckpt")
    content = written(path)
    table = content["model_state"]["encoder.pe.pe"]
    width = table.size(2)
    steps = torch.exp(torch.arange(0, width, 2, dtype=torch.float) * -(math.log(10_000) / width))
    angles = torch.arange(5_000)[:, None] * steps
    table = torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)[None]
    assert off_formula(table[0], ModelConfig(d_model=width, n_heads=1)) > 1e-5
    content["model_state"]["encoder.pe.pe"] = table
    torch.save(content, path)
    config = inspect_entry(FORMATS["joeynmt"].convert(path, tmp_path / "ours")).config
    assert config is not None and config.positions == "sinusoidal"


@pytest.mark.parametrize(("testing", "decoding", "unused"), [
    ({"beam_size": 7, "beam_alpha": 1.3}, Decoding(7, 1.3), ()),
    ({"beam_size": 1}, Decoding(1, 0.0), ()),
    ({"beam_size": 5, "alpha": 0.0, "max_output_length": 31}, Decoding(5, 0.0),
     ("max_output_length=31",)),
    ({"beam_size": 5, "beam_alpha": -1, "generate_unk": False, "repetition_penalty": 2.5},
     Decoding(5, 0.0), ("repetition_penalty=2.5",)),
    ({"batch_size": 4}, Decoding(1, 0.0), ()),
    ({"beam_size": 100, "beam_alpha": "x"}, Decoding(64, 0.0),
     ("beam_alpha='x'", "beam_size=100 (64 here)")),
])  # fmt: skip
def test_decoding_of_joeynmt_is_kept(
    testing: dict[str, Any], decoding: Decoding, unused: tuple[str, ...], tmp_path: Path
) -> None:
    joeynmt(tmp_path / "theirs", "post-norm, separate")
    edit("config.yaml", testing=testing)(tmp_path / "theirs")
    folder = FORMATS["joeynmt"].convert(tmp_path / "theirs", tmp_path / "ours")
    ours = Translator.load(folder, "cpu")
    assert ours.decoding == decoding and inspect_entry(folder).unused == unused
    search = ours.trace(ENGLISH[0], max_length=3).search
    assert search is not None and search.rule == PAPER
    assert (search.beam_size, search.alpha) == (decoding.beam_size, decoding.alpha)


def test_old_models_of_joeynmt_say_nothing_of_their_norms(tmp_path: Path) -> None:
    pair = make_pair(tmp_path, "joeynmt", "version 1, all tied")
    assert pair.ours.config.norm == "pre" and pair.ours.tokenizer.kind == "word"
    settings = json.loads((tmp_path / "ours" / "tokenizer_rules.json").read_text())
    assert settings == {"unit": "word", "joint": "@@", "preparation": {"lowercase": True}}


def test_joeynmt_says_how_text_is_prepared(tmp_path: Path) -> None:
    joeynmt(tmp_path / "theirs", "post-norm, separate")
    edit("config.yaml", "data", "src", normalize=True, lowercase=True)(tmp_path / "theirs")
    edit("config.yaml", "data", "src", "tokenizer_cfg", pretokenizer="moses")(tmp_path / "theirs")
    (tmp_path / "theirs" / "best.ckpt").symlink_to("7.ckpt")
    ours = Translator.load(FORMATS["joeynmt"].convert(tmp_path / "theirs", tmp_path / "ours"))
    assert isinstance(ours.tokenizer, Numbered) and isinstance(ours.tokenizer.target, Numbered)
    assert ours.tokenizer.preparation == Preparation(
        normalise=True, normalise_punctuation=True, moses="en", lowercase=True
    )
    assert ours.tokenizer.target.preparation == Preparation(lowercase=True)
    assert ours.tokenizer.normalize("It\u2019s (really) The Cat .") == (
        "▁it▁&apos;s▁(▁really▁)▁the▁cat▁."
    )
    assert ours.tokenizer.settings["within"]


def test_moses_is_called_as_the_checkpoint_says(tmp_path: Path) -> None:
    fairseq(tmp_path / "theirs", "post-norm, all shared")
    path = tmp_path / "theirs" / "checkpoint_best.pt"
    content = written(path)
    for name, no_splits, no_escape in (("one", True, False), ("other", False, True)):
        content["cfg"]["tokenizer"] = {
            "_name": "moses", "moses_no_dash_splits": no_splits, "moses_no_escape": no_escape,
        }  # fmt: skip
        content["cfg"]["bpe"] = {"_name": "subword_nmt", "bpe_separator": f"@{name}"}
        torch.save(content, path)
        ours = Translator.load(FORMATS["fairseq"].convert(path, tmp_path / name), device="cpu")
        moses = MosesTokenizer("en").tokenize(
            "A well-known dog's", aggressive_dash_splits=not no_splits, escape=not no_escape
        )
        assert ours.tokenizer.normalize("A well-known dog's").split("▁")[1:] == moses
        assert ours.tokenizer.settings["joint"] == f"@{name}"


@pytest.mark.parametrize(
    ("kind", "shape"), [("fairseq", "pre-norm, nothing shared"), ("joeynmt", "pre-norm, other ids")]
)
def test_text_reaches_sentencepiece_as_typed(tmp_path: Path, kind: str, shape: str) -> None:
    """The library's own normaliser splits at some invisible characters and drops others."""
    pair = make_pair(tmp_path, kind, shape)
    for tokenizer in (pair.ours.tokenizer, pair.ours.tokenizer.target):
        own = spm.SentencePieceProcessor(model_proto=tokenizer.to_bytes())
        for text in typed_texts(200):
            pieces = own.encode(text, out_type=str)
            assert list(tokenizer.tokenize(text).ids) == list(map(tokenizer.piece_to_id, pieces))
            assert all(len(each.splitlines()) == 1 for each in tokenizer.tokenize(text).pieces)
