"""Untrusted Marian folders: one line states the fault, nothing is left behind."""

from __future__ import annotations

import json
import pickle
import shutil
import zipfile
from pathlib import Path

import pytest
import safetensors.torch
import torch

from tests.transformer.damage import Damage, Evil, cut, edit, plant_code, remove, weights, write
from tests.transformer.importers.models import make_folder
from transformer.__main__ import main
from transformer.catalogue import list_entries
from transformer.checkpoint.folder import load_checkpoint
from transformer.errors import CheckpointError
from transformer.importers.registry import FORMATS

pytestmark = pytest.mark.filterwarnings("ignore")  # those of transformers


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("marian") / "theirs"
    make_folder(folder, "separate vocabularies")
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy to be damaged."""
    return Path(shutil.copytree(whole, tmp_path / "theirs"))


FC = "model.encoder.layers.0.fc1.weight"
#: How a folder is damaged, and the message.
DAMAGES: dict[str, tuple[Damage, str]] = {
    "a billion layers": (edit("config.json", encoder_layers=10**9), "parameters; at most"),
    "many tiny layers": (edit("config.json", decoder_layers=9_000, d_model=4,
                              encoder_attention_heads=1, decoder_attention_heads=1,
                              decoder_ffn_dim=1, encoder_ffn_dim=1), "at most 200"),
    "a huge table": (edit("config.json", max_position_embeddings=10**12), "table of more than"),
    "another family": (edit("config.json", model_type="bart"), "model_type='bart'"),
    "pre-norm": (edit("config.json", normalize_before=True), "normalize_before=True"),
    "an activation": (edit("config.json", activation_function="tanh"), "relu, gelu, swish, silu"),
    "a size as text": (edit("config.json", d_model="24"), "d_model='24'"),
    "no size": (edit("config.json", d_model=...), "d_model=None"),
    "heads that do not fit": (edit("config.json", encoder_attention_heads=5), "multiple of"),
    "pad outside": (edit("config.json", pad_token_id=10**6), r"<pad> is|outside the vocab"),
    "eos as text": (edit("config.json", eos_token_id="0"), "eos_token_id='0'"),
    "another end": (edit("generation_config.json", forced_eos_token_id=4), "forced_eos_token_id=4"),
    "words of two": (edit("generation_config.json", bad_words_ids=[[3, 4]]), "bad_words_ids"),
    "config cut": (cut("config.json", 0.5), r"config\.json: not valid JSON"),
    "config a list": (write("config.json", b"[]"), r"config\.json: expected a JSON object"),
    "config binary": (write("config.json", b"\xff\xfe"), r"config\.json: not UTF-8"),
    "config of digits": (write("config.json", b"9" * 5_000), r"config\.json: not valid JSON"),
    "config nested": (write("config.json", b"[" * 100_000), r"config\.json: not valid JSON"),
    "no config": (remove("config.json"), r"config\.json: the file is missing"),
    "one more end": (edit("generation_config.json", eos_token_id=7), "7 is not that of"),
    "suppressed text": (edit("generation_config.json", suppress_tokens=["x"]), "not token ids"),
    "no vocabulary": (remove("vocab.json"), r"vocab\.json: the file is missing"),
    "vocabulary cut": (cut("vocab.json", 0.7), r"vocab\.json: not valid JSON"),
    "a piece more": (edit("vocab.json", extra=999), r"vocab\.json: \d+ pieces, but config\.json"),
    "ids twice": (edit("vocab.json", **{">>fra<<": 5, ">>deu<<": 5}), r"vocab\.json: its"),
    "ids as text": (edit("vocab.json", **{">>fra<<": "5"}), r"vocab\.json: expected"),
    "no <unk>": (edit("vocab.json", **{"<unk>": ...}), r"vocab\.json: <unk> is missing"),
    "</s> elsewhere": (edit("config.json", eos_token_id=9, forced_eos_token_id=9),
                       r"generation_config\.json: eos_token_id=0 is not that of config\.json, 9"),
    "no source.spm": (remove("source.spm"), r"source\.spm: the file is missing"),
    "source.spm cut": (cut("source.spm", 0.4), r"source\.spm: "),
    "source.spm empty": (write("source.spm", b""), r"source\.spm: not a SentencePiece"),
    "no weights": (remove("model.safetensors"), r"model\.safetensors: the file is missing"),
    "half copied": (cut("model.safetensors", 0.5), r"model\.safetensors: not a whole"),
    "NaN": (weights(lambda s: s[FC].view(-1).__setitem__(3, float("nan"))), f"{FC}.* holds NaN"),
    "another width": (edit("config.json", encoder_ffn_dim=48), r"has shape .*config\.json asks"),
    "a tensor less": (weights(lambda s: s.pop(FC)), f"{FC}' is missing"),
    "a tensor more": (weights(lambda s: s.update(x=torch.ones(1))), "'x' does not belong"),
    "whole numbers": (weights(lambda s: s.update({FC: s[FC].int()})), "stored as I32"),
    "ties that differ": (weights(lambda s: s.update({
        "lm_head.weight": s["model.decoder.embed_tokens.weight"] + 1})), "differ, but config"),
    "an index that is none": (
        lambda f: (f / "model.safetensors").rename(f / "model.safetensors.index.json"),
        r"model\.safetensors\.index\.json: not "),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGES)
def test_what_is_wrong_is_said_in_one_line(name: str, folder: Path, tmp_path: Path) -> None:
    damage, reason = DAMAGES[name]
    damage(folder)
    with pytest.raises(CheckpointError, match=reason) as caught:
        FORMATS["marian"].convert(folder, tmp_path / "ours")
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value)
    assert [each.name for each in tmp_path.iterdir()] == ["theirs"]


def test_a_tokenizer_of_another_model(folder: Path, tmp_path: Path) -> None:
    """Most pieces are missing from the vocabulary, so they were not trained together."""
    ids = json.loads((folder / "vocab.json").read_text())
    strange = {p if p in ("<pad>", "</s>", "<unk>") else f"x{i}": i for p, i in ids.items()}
    (folder / "vocab.json").write_text(json.dumps(strange))
    with pytest.raises(
        CheckpointError, match=r"source\.spm: only 0 of .* belong to different models"
    ):
        FORMATS["marian"].convert(folder, tmp_path / "ours")


@pytest.mark.parametrize("bare", [False, True])
def test_a_pickle_cannot_run_code(folder: Path, tmp_path: Path, bare: bool) -> None:
    plant_code(folder, tmp_path / "ran", bare)
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin"):
        FORMATS["marian"].convert(folder, tmp_path / "ours")
    assert not (tmp_path / "ran").exists()
    with pytest.raises((pickle.UnpicklingError, RuntimeError)):  # the payload itself does work
        torch.load(folder / "pytorch_model.bin", weights_only=True)
    pickle.loads(pickle.dumps(Evil(tmp_path / "ran")))  # noqa: S301
    assert (tmp_path / "ran").exists()


def test_an_archive_that_would_grow_is_refused(folder: Path, tmp_path: Path) -> None:
    state = safetensors.torch.load_file(folder / "model.safetensors")
    torch.save(state, tmp_path / "plain.bin")
    (folder / "model.safetensors").unlink()
    with (
        zipfile.ZipFile(tmp_path / "plain.bin") as plain,
        zipfile.ZipFile(folder / "pytorch_model.bin", "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for each in plain.infolist():
            packed.writestr(each.filename, plain.read(each))
    with pytest.raises(CheckpointError, match="compressed archive"):
        FORMATS["marian"].convert(folder, tmp_path / "ours")


def test_an_existing_folder_is_left_alone(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "mine.txt").write_text("mine")
    with pytest.raises(CheckpointError, match="exists already"):
        FORMATS["marian"].convert(folder, tmp_path / "ours")
    assert (tmp_path / "ours" / "mine.txt").read_text() == "mine"


def test_a_damaged_import_is_listed_with_its_reason(folder: Path, tmp_path: Path) -> None:
    path = FORMATS["marian"].convert(folder, tmp_path / "root" / "ours")
    pieces = json.loads((path / "vocabulary.json").read_text())
    (path / "vocabulary.json").write_text(json.dumps([*pieces[:-1], pieces[0]]))
    (entry,) = list_entries([tmp_path / "root"])
    assert entry.error is not None
    assert "vocabulary holds a piece twice" in entry.error
    (path / "vocabulary.json").write_text('{"a": 1}')
    with pytest.raises(CheckpointError, match=r"vocabulary\.json: expected a JSON list"):
        load_checkpoint(path)


def test_the_command_line(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new" / "ours"
    assert main(["import", "marian", str(folder), "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    arguments = ["translate", "--checkpoint", str(out), "--beam", "1", "A dog", "", "--device"]
    assert main([*arguments, "cpu"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert main(["import", "marian", str(folder), "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "exists already" in error
