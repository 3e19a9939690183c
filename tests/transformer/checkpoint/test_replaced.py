"""Overwriting a checkpoint: readers see the old one or the new one, whole."""

import json
import threading
from pathlib import Path

import pytest

from tests.tiny_models import random_model
from transformer.catalogue import list_entries
from transformer.checkpoint.folder import load_checkpoint, save_checkpoint
from transformer.config import ModelConfig
from transformer.errors import CheckpointError
from transformer.files import folders, leftovers
from transformer.files.leftovers import own_prefix
from transformer.text.tokenizer import Tokenizer


def write(path: Path, tokenizer: Tokenizer, d_ff: int) -> Path:
    """Write a checkpoint whose first number identifies it."""
    config = ModelConfig(
        vocab_size=tokenizer.vocab_size, d_model=12, n_heads=3, d_ff=d_ff, n_encoder_layers=1,
        n_decoder_layers=2,
    )  # fmt: skip
    model = random_model(config)
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
    """As between the two renames of a process that is held up, where names cannot be exchanged."""
    path = write(tmp_path / "it", tiny_tokenizer, 16)
    aside = tmp_path / f"{own_prefix('.it.')}ab.old"
    path.rename(aside)
    waits = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            aside.rename(path)

    monkeypatch.setattr(leftovers.time, "sleep", wait)
    assert load_checkpoint(path).config.d_ff == 16 and len(waits) == 3
    path.rename(aside)
    monkeypatch.setattr(leftovers, "_MOMENT", -1.0)
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
    assert (path / "README.md").read_text() == "another"


def test_an_error_leaves_the_old_one(tmp_path: Path, tiny_tokenizer: Tokenizer) -> None:
    path = write(tmp_path / "it", tiny_tokenizer, 16)
    loaded = load_checkpoint(path)
    with pytest.raises(ValueError, match="int8"):
        save_checkpoint(path, loaded.model, loaded.tokenizer, dtype="int8")
    assert load_checkpoint(path).config.d_ff == 16
    assert [each.name for each in tmp_path.iterdir()] == ["it"]


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
