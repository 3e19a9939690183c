import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from tests.tiny_models import SMALL, random_model
from tests.transformer.damage import edit
from transformer.checkpoint.folder import load_checkpoint, save_checkpoint
from transformer.checkpoint.weights import digest, outline, weights_digest
from transformer.files import folders
from transformer.files.folders import own_prefix, write_atomic
from transformer.model import Transformer
from transformer.models.catalogue import list_entries
from transformer.text.tokenizer import Tokenizer
from transformer.types import CheckpointError


@pytest.fixture
def folder(tiny_checkpoint: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_checkpoint, tmp_path / "copy"))


def outputs(model: Transformer) -> torch.Tensor:
    return model(torch.tensor([[5, 8, 40, 7, 2]]), torch.tensor([[1, 9, 33]]))


@pytest.mark.parametrize("tying", ["all", "decoder", "none"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "stored"])
def test_saved_and_loaded(
    tmp_path: Path, tiny_tokenizer: Tokenizer, tying: str, positions: str
) -> None:
    config = SMALL.replace(tie_embeddings=tying, positions=positions, norm="pre")
    model = random_model(config)
    save_checkpoint(tmp_path / "it", model, tiny_tokenizer, metrics={"bleu": 0.0})
    checkpoint = load_checkpoint(tmp_path / "it")
    assert (checkpoint.ref.name, checkpoint.metrics) == ("it", {"bleu": 0.0})
    assert checkpoint.config == config and not (loaded := checkpoint.model).training
    assert not any(tensor.requires_grad for tensor in loaded.parameters())
    assert loaded.n_parameters == config.n_parameters
    assert (loaded.generator.weight is loaded.tgt_embedding.weight) == (tying != "none")
    assert (loaded.tgt_embedding is loaded.src_embedding) == (tying == "all")
    assert torch.equal(outputs(loaded), outputs(model))
    stored = safetensors.torch.load_file(tmp_path / "it" / "model.safetensors")
    assert sum(each.numel() for each in stored.values()) == config.n_numbers
    assert (config.n_numbers > config.n_parameters) == (positions == "stored")


def test_a_stored_table_is_kept_as_it_is(tmp_path: Path, tiny_tokenizer: Tokenizer) -> None:
    model = random_model(SMALL.replace(positions="stored", max_positions=9))
    model.src_positions.table.normal_()
    save_checkpoint(tmp_path / "it", model, tiny_tokenizer, dtype="bfloat16")
    loaded = load_checkpoint(tmp_path / "it").model
    for name in ("src_positions", "tgt_positions"):
        table = getattr(loaded, name).table
        assert not isinstance(table, torch.nn.Parameter)
        assert torch.equal(table, getattr(model, name).table)
    with pytest.raises(ValueError, match="exceeds the 9 stored positions"):
        loaded.encode(torch.full((1, 10), 5))
    state = model.state_dict() | {"tgt_positions.table": torch.full((9, 12), torch.nan)}
    torch.save(state, tmp_path / "it" / "model.pt")
    (tmp_path / "it" / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"tgt_positions\.table' holds NaN"):
        load_checkpoint(tmp_path / "it")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_computed_with_in_full(
    tmp_path: Path, tiny_model: Transformer, tiny_tokenizer: Tokenizer, dtype: str
) -> None:
    save_checkpoint(tmp_path / "half", tiny_model, tiny_tokenizer, dtype=dtype)
    loaded = load_checkpoint(tmp_path / "half").model
    assert {each.dtype for each in loaded.parameters()} == {torch.float32}
    weight = tiny_model.src_embedding.weight
    assert torch.equal(loaded.src_embedding.weight, weight.to(getattr(torch, dtype)).float())
    whole = save_checkpoint(tmp_path / "whole", tiny_model, tiny_tokenizer)
    sizes = [(each / "model.safetensors").stat().st_size for each in (tmp_path / "half", whole)]
    assert sizes[0] < 0.6 * sizes[1]


@pytest.mark.parametrize("archive", [False, True])
@pytest.mark.parametrize("wrapped", [False, True])
def test_torch_weights(folder: Path, tiny_model: Transformer, archive: bool, wrapped: bool) -> None:
    (folder / "model.safetensors").unlink()
    state = tiny_model.state_dict()
    content = {"model": state} if wrapped else state
    torch.save(content, folder / "model.pt", _use_new_zipfile_serialization=archive)
    assert torch.equal(outputs(load_checkpoint(folder).model), outputs(tiny_model))


def test_bad_metrics_and_early_shapes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for data in (b"{", b"[1]", b"\xff", b"[" * 100_000):
        (folder / "metrics.json").write_bytes(data)
        assert load_checkpoint(folder).metrics == {}
    edit("config.json", d_ff=10_000, d_model=2400, d_k=800, d_v=800)(folder)
    taken: list[object] = []
    monkeypatch.setattr("transformer.checkpoint.weights.read_tensors", taken.append)
    with pytest.raises(CheckpointError, match="has shape"):
        load_checkpoint(folder)
    assert not taken


def test_a_file_appears_whole_or_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomic(path, b"old")

    def fail(_: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="no space"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_a_device_is_written_to_and_stays_one() -> None:
    """A file must not replace /dev/stdout."""
    ours, theirs = os.openpty()
    try:
        path = Path(os.ttyname(theirs))
        write_atomic(path, b"new")
        assert os.read(ours, 10) == b"new"
        assert path.is_char_device()
    finally:
        os.close(ours)
        os.close(theirs)


ROOT = Path(__file__).parents[3]

FIRST_TRANSLATION = """
import sys
from pathlib import Path
import transformer.models.huggingface.model
from transformer.models.catalogue import list_entries
from transformer.translator import Translator
assert list_entries([Path("checkpoints")])
translator = Translator.load("checkpoints/reverse-toy", device="cpu")
assert translator.trace("abc").text == "cba"
slow = {"sympy", "torch._dynamo", "transformers"}
assert "torch" in sys.modules and not slow & sys.modules.keys()
"""


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "stored"])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_shapes_are_the_models_and_take_no_memory(positions: Any, norm: Any) -> None:
    config = SMALL.replace(n_encoder_layers=2, positions=positions, norm=norm, max_positions=9)
    model, empty = Transformer(config), outline(config, Transformer)
    assert {name: each.shape for name, each in empty.state_dict().items()} == {
        name: each.shape for name, each in model.state_dict().items()
    }
    tensors = [*empty.parameters(), *empty.buffers()]
    assert tensors and all(tensor.is_meta for tensor in tensors)
    assert [each.shape for each in empty.buffers()] == [each.shape for each in model.buffers()]


def test_a_first_translation_does_without_slow_libraries() -> None:
    subprocess.run([sys.executable, "-c", FIRST_TRANSLATION], cwd=ROOT, check=True, timeout=250)


def write(path: Path, tokenizer: Tokenizer, d_ff: int) -> Path:
    """Write a checkpoint identified by its first number."""
    model = random_model(SMALL.replace(vocab_size=tokenizer.vocab_size, d_ff=d_ff))
    model.generator.weight[0, 0] = d_ff
    return save_checkpoint(path, model, tokenizer, metrics={"bleu": 1.0})


@pytest.mark.parametrize("with_exchange", [True, False])
def test_readers_meanwhile(
    with_exchange: bool, tmp_path: Path, tiny_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not with_exchange:
        monkeypatch.setattr(folders, "_exchange_call", lambda: None)
    old, new = (write(tmp_path / str(d_ff), tiny_tokenizer, d_ff) for d_ff in (16, 24))
    path = write(tmp_path / "it", tiny_tokenizer, 16)
    both = [load_checkpoint(each) for each in (new, old)]
    over = threading.Event()

    def keep_writing() -> None:
        while not over.is_set():
            for each in both:
                save_checkpoint(path, each.model, each.tokenizer)
                over.wait(0.05)

    writer = threading.Thread(target=keep_writing)
    writer.start()
    try:
        seen = []
        for _ in range(12):
            loaded = load_checkpoint(path)
            seen.append((loaded.config.d_ff, float(loaded.model.generator.weight[0, 0])))
    finally:
        over.set()
        writer.join()
    assert {*seen} <= {(16, 16.0), (24, 24.0)}
    assert [each.name for each in list_entries([tmp_path])] == ["16", "24", "it"]


def test_a_folder_that_is_moved_aside_for_a_moment_is_waited_for(
    tmp_path: Path, tiny_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an atomic exchange, a folder is missing between two renames."""
    path = write(tmp_path / "it", tiny_tokenizer, 16)
    aside = tmp_path / f"{own_prefix('.it.')}ab.old"
    path.rename(aside)
    waits = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            aside.rename(path)

    monkeypatch.setattr(folders.time, "sleep", wait)
    assert load_checkpoint(path).config.d_ff == 16 and len(waits) == 3
    path.rename(aside)
    monkeypatch.setattr(folders, "_MOMENT", -1.0)
    with pytest.raises(CheckpointError, match="no such checkpoint folder"):
        load_checkpoint(path)
    assert len(waits) == 3


def test_what_else_lies_there_is_kept(tmp_path: Path, tiny_tokenizer: Tokenizer) -> None:
    path = write(tmp_path / "it", tiny_tokenizer, 16)
    (path / "README.md").write_text("a card")
    (path / "link").symlink_to("README.md")
    (tmp_path / "named").symlink_to("it")
    loaded = load_checkpoint(path)
    (path / "vocabulary.json").write_text("{}")  # of the replaced tokenizer
    save_checkpoint(tmp_path / "named", loaded.model, loaded.tokenizer, card=None)
    assert (tmp_path / "named").is_symlink()
    assert (path / "link").read_text() == "a card"
    assert not (path / "vocabulary.json").exists()
    assert json.loads((path / "metrics.json").read_text()) == {"bleu": 1.0}
    save_checkpoint(path, loaded.model, loaded.tokenizer, card="another")
    with pytest.raises(ValueError, match="int8"):
        save_checkpoint(path, loaded.model, loaded.tokenizer, dtype="int8", card="a third")
    assert load_checkpoint(path).config.d_ff == 16
    assert (path / "README.md").read_text() == "another"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["it", "named"]


def test_a_folder_that_cannot_be_renamed_is_filled(
    tmp_path: Path, tiny_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, new = (write(tmp_path / str(d_ff), tiny_tokenizer, d_ff) for d_ff in (16, 24))

    def refuse(*_: object) -> bool:
        raise OSError(16, "Device or resource busy")  # as of a mount point

    monkeypatch.setattr(folders, "exchange", refuse)
    loaded = load_checkpoint(new)
    inode = path.stat().st_ino
    save_checkpoint(path, loaded.model, loaded.tokenizer)
    assert path.stat().st_ino == inode
    assert load_checkpoint(path).config.d_ff == 24


def test_the_digest_is_of_all_shards(tmp_path: Path) -> None:
    for number, content in ((1, b"one"), (2, b"two")):
        (tmp_path / f"model-0000{number}-of-00002.safetensors").write_bytes(content)
    assert weights_digest(tmp_path) == digest(b"onetwo")
    (tmp_path / "model-00002-of-00002.safetensors").write_bytes(b"three")
    assert weights_digest(tmp_path) == digest(b"onethree")
    assert weights_digest(tmp_path / "nothing") == ""
