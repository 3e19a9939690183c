"""Checkpoint folders are read back as written; a broken one is reported in one line."""

import os
import shutil
from pathlib import Path

import pytest
import safetensors.torch
import torch

from tests.tiny_models import random_model
from tests.transformer.damage import edit
from transformer.checkpoint.folder import load_checkpoint, save_checkpoint
from transformer.config import ModelConfig
from transformer.errors import CheckpointError
from transformer.files.atomic import write_atomic
from transformer.model import Transformer
from transformer.text.tokenizer import Tokenizer

SMALL = ModelConfig(
    vocab_size=110, d_model=12, n_heads=3, d_ff=8, n_encoder_layers=1, n_decoder_layers=2
)


@pytest.fixture
def folder(tiny_checkpoint: Path, tmp_path: Path) -> Path:
    """A copy of the tiny checkpoint, to be damaged."""
    return Path(shutil.copytree(tiny_checkpoint, tmp_path / "copy"))


def outputs(model: Transformer) -> torch.Tensor:
    src = torch.tensor([[5, 8, 40, 7, 2]])
    return model(src, torch.tensor([[1, 9, 33]]))


def test_what_is_saved_is_loaded(tiny_checkpoint: Path, tiny_model: Transformer) -> None:
    checkpoint = load_checkpoint(tiny_checkpoint)
    assert checkpoint.name == "tiny"
    assert checkpoint.config == tiny_model.config
    assert checkpoint.metrics == {"bleu": 0.0}
    assert not checkpoint.model.training
    assert not any(each.requires_grad for each in checkpoint.model.parameters())
    assert torch.equal(outputs(checkpoint.model), outputs(tiny_model))


@pytest.mark.parametrize("tying", ["all", "decoder", "none"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "stored"])
def test_ties_survive(
    tmp_path: Path, tiny_tokenizer: Tokenizer, tying: str, positions: str
) -> None:
    config = SMALL.replace(tie_embeddings=tying, positions=positions, norm="pre")
    model = random_model(config)
    save_checkpoint(tmp_path / "it", model, tiny_tokenizer)
    loaded = load_checkpoint(tmp_path / "it").model
    assert loaded.n_parameters == config.n_parameters
    assert (loaded.generator.weight is loaded.tgt_embedding.weight) == (tying != "none")
    assert (loaded.tgt_embedding is loaded.src_embedding) == (tying == "all")
    assert torch.equal(outputs(loaded), outputs(model))
    stored = safetensors.torch.load_file(tmp_path / "it" / "model.safetensors")
    assert sum(each.numel() for each in stored.values()) == config.n_numbers
    assert (config.n_numbers > config.n_parameters) == (positions == "stored")


def test_a_stored_table_is_kept_as_it_is(tmp_path: Path, tiny_tokenizer: Tokenizer) -> None:
    """Neither recomputed nor rounded, in half precision or through a torch file."""
    model = random_model(SMALL.replace(positions="stored", max_positions=9))
    model.src_positions.table.normal_()
    save_checkpoint(tmp_path / "it", model, tiny_tokenizer, dtype="bfloat16")
    loaded = load_checkpoint(tmp_path / "it").model
    for name in ("src_positions", "tgt_positions"):
        table = getattr(loaded, name).table
        assert not isinstance(table, torch.nn.Parameter)
        assert torch.equal(table, getattr(model, name).table)
    with pytest.raises(ValueError, match="beyond the 9 stored positions"):
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
def test_a_torch_file_of_weights(
    folder: Path, tiny_model: Transformer, archive: bool, wrapped: bool
) -> None:
    (folder / "model.safetensors").unlink()
    state = tiny_model.state_dict()
    content = {"model": state} if wrapped else state
    torch.save(content, folder / "model.pt", _use_new_zipfile_serialization=archive)
    assert torch.equal(outputs(load_checkpoint(folder).model), outputs(tiny_model))


def test_shapes_are_compared_before_memory_is_taken(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit("config.json", d_ff=100_000, d_model=2400, d_k=800, d_v=800)(folder)
    taken: list[object] = []
    monkeypatch.setattr("transformer.checkpoint.weights.read_tensors", taken.append)
    with pytest.raises(CheckpointError, match="shape"):
        load_checkpoint(folder)
    assert not taken


def test_bad_metrics_do_not_stop_a_good_model(folder: Path) -> None:
    for data in (b"{", b"[1]", b"\xff", b"[" * 100_000):
        (folder / "metrics.json").write_bytes(data)
        assert load_checkpoint(folder).metrics == {}


def test_a_file_appears_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    """As with --output /dev/stdout, which must not be replaced by a file."""
    ours, theirs = os.openpty()
    try:
        path = Path(os.ttyname(theirs))
        write_atomic(path, b"new")
        assert os.read(ours, 10) == b"new"
        assert path.is_char_device()
    finally:
        os.close(ours)
        os.close(theirs)
