"""Checkpoints overwritten by a killed process, and while they load."""

import itertools
import os
import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.forks import forked
from tests.transformer.checkpoint.test_folder import write
from tests.transformer.models.importers.test_formats import WEIGHTS, check_survival
from transformer.checkpoint.folder import Checkpoint, load_checkpoint, save_checkpoint
from transformer.files import folders
from transformer.text.tokenizer import Tokenizer


def overwrite(path: Path, new: Checkpoint, kill_at: int, with_exchange: bool) -> None:
    """Save, and die before a call that syncs, renames, links or removes a file."""
    torch.set_num_threads(1)
    if not with_exchange:
        folders._exchange_call = lambda: None
    calls = itertools.count(1)

    def deadly(real: Callable[..., Any], *args: Any, **options: Any) -> Any:
        if next(calls) == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **options)

    for module, name in (
        (os, "fsync"), (os, "replace"), (os, "rename"), (os, "link"), (os, "unlink"),
        (folders, "exchange"), (shutil, "rmtree"),
    ):  # fmt: skip
        setattr(module, name, partial(deadly, getattr(module, name)))
    save_checkpoint(path, new.model, new.tokenizer)


@pytest.mark.parametrize("with_exchange", [True, False])
@pytest.mark.timeout(200)
def test_killed_at_any_step(with_exchange: bool, tmp_path: Path, tiny_tokenizer: Tokenizer) -> None:
    path, old, new = (
        write(tmp_path / name, tiny_tokenizer, d_ff)
        for name, d_ff in (("it", 16), ("old", 16), ("new", 24))
    )
    (path / "notes.txt").write_text("mine")
    (path / "epochs").mkdir()
    (path / "epochs" / "1").write_text("weights")
    before, after = load_checkpoint(old), load_checkpoint(new)
    ends, status = [], -1
    for kill_at in range(1, 100):
        work = partial(overwrite, path, after, kill_at, with_exchange)
        status, said = forked(work, tmp_path / "log")
        assert status in (0, -signal.SIGKILL), said
        loaded = load_checkpoint(path)
        ends.append(loaded.config.d_ff)
        assert float(loaded.model.generator.weight[0, 0]) == loaded.config.d_ff
        assert (path / "notes.txt").read_text() == "mine"
        assert (path / "epochs" / "1").read_text() == "weights"
        assert loaded.metrics["bleu"] == 1.0
        if status == 0:
            break
        save_checkpoint(path, before.model, before.tokenizer)
    assert status == 0 and len(ends) >= 16 and {*ends} == {16, 24} and ends[-1] == 24
    write(path, tiny_tokenizer, 16)
    assert {each.name for each in tmp_path.iterdir()} == {"it", "new", "old", "log"}


@pytest.mark.filterwarnings("ignore")
def test_weights_overwritten_in_place(tmp_path: Path, tiny_tokenizer: Tokenizer) -> None:
    check_survival(tuple(WEIGHTS), 8, tmp_path, tiny_tokenizer)
