"""A run killed at any moment resumes to bitwise the same result."""

import errno
import os
import resource
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.transformer.conftest import parallel_text
from tests.transformer.training.runs import assert_same_bits, log_lines, recipe, run
from transformer.config import ConfigError
from transformer.errors import CheckpointError
from transformer.training import trainer
from transformer.training.run_folder import Progress, RunFolder
from transformer.training.trainer import Trainer


class Killed(BaseException):
    """Simulates a kill at an exact place."""


def run_killed(path: Path, out: Path, owner: Any, name: str, call: int) -> None:
    """Begin or resume a run, and end it at the `call`-th call of owner.name."""
    real, calls = getattr(owner, name), iter(range(1, 10**9))

    def deadly(*args: Any, **options: Any) -> Any:
        if next(calls) == call:
            raise Killed
        return real(*args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, deadly)
        with pytest.raises(Killed):
            run(path, out, resume=True)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Path:
    """The usual run, for reading only."""
    data = parallel_text(tmp_path_factory.mktemp("whole") / "data")
    return run(recipe(data), data.parent / "out")


def logged(out: Path) -> list[tuple[str, int, int]]:
    return [(line["kind"], line["update"], line["epoch"]) for line in log_lines(out)]


#: Every option that draws numbers or depends on the update.
OPTIONS = "clip_norm = 1.0\ncooldown = 0.5\npeak_lr = 1e-2\nword_dropout = 0.3\nsnapshots = 5"


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "fill"])
def test_resuming_gives_the_same_bits_and_log_lines_once(
    kind: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In both precisions, and of a model whose masked tokens are drawn."""
    monkeypatch.setattr(trainer, "LOG_EVERY", 1)
    stack = '\n[stack]\ntask = "fill"\nn_layers = 2\n' if kind == "fill" else ""
    path = recipe(data, OPTIONS + stack, precision="bfloat16" if kind == "bfloat16" else "float32")
    run(path, tmp_path / "whole")
    # In the first epoch with a state behind it, between the line of the epoch's end and the state
    # that follows it, and between two saves of the second.
    run_killed(path, tmp_path / "cut", Trainer, "begin_update", 6)
    run_killed(path, tmp_path / "cut", RunFolder, "save_state", 2)
    with open(tmp_path / "cut" / "metrics.jsonl", "a") as file:
        file.write('{"kind": "update", "upda')  # cut off in the middle of a line
    run_killed(path, tmp_path / "cut", Trainer, "begin_update", 7)
    run(path, tmp_path / "cut", resume=True)
    assert logged(tmp_path / "whole") == logged(tmp_path / "cut")
    assert_same_bits(tmp_path / "whole", tmp_path / "cut")


@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_ended_in_the_middle_of_saves(
    finished: Path, data: Path, tmp_path: Path, name: str
) -> None:
    """Before, within and after saves of every kind; `make soak` kills processes at these places."""
    path = recipe(data)
    for call in (1, 3, 8):
        run_killed(path, tmp_path / "cut", os, name, call)
    run(path, tmp_path / "cut", resume=True)
    assert_same_bits(finished, tmp_path / "cut")


def test_a_longer_run_goes_on_from_a_finished_one(
    finished: Path, data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And counts the temporary files of a killed process that it removes."""
    run(recipe(data, epochs=3), tmp_path / "whole")
    out = Path(shutil.copytree(finished, tmp_path / "longer"))
    for name in (".recipe.json.77.new", "epochs/.0002.safetensors.77.new", "state.pt.partial"):
        (out / name).write_bytes(b"cut off")
    with caplog.at_level("INFO"):
        run(recipe(data, epochs=3), out, resume=True)
    assert_same_bits(tmp_path / "whole", out)
    assert f"{out}: removed 3 temporary files" in caplog.text and "in epoch 3" in caplog.text
    assert not [each for each in out.rglob("*") if each.name.endswith((".new", ".partial"))]


def swap_lines(data: Path) -> None:
    for file in data.glob("pairs.*"):
        first, second, *rest = file.read_text().splitlines()
        file.write_text("\n".join([second, first, *rest]) + "\n")


def test_another_run_is_refused(finished: Path, data: Path, tmp_path: Path) -> None:
    out = Path(shutil.copytree(finished, tmp_path / "out"))
    before = {file: file.read_bytes() for file in out.iterdir() if file.is_file()}
    with pytest.raises(ConfigError, match=r"use --resume or another --out"):
        run(recipe(data), out)
    with pytest.raises(ConfigError, match=r"\[training\] seed was 1 and is now 2"):
        run(recipe(data, "seed = 2"), out, resume=True)
    with pytest.raises(ConfigError, match=r"\[model\] dropout was 0.2 and is now 0.1"):
        run(recipe(data, dropout=0.1), out, resume=True)
    swap_lines(data)  # it could not give the result that the run would have given
    with pytest.raises(ConfigError, match=r"recipe\.json: the training text has changed"):
        run(recipe(data, epochs=9), out, resume=True)
    assert {file: file.read_bytes() for file in before} == before
    (out / "recipe.json").unlink()
    with pytest.raises(ConfigError, match="cannot resume without it"):
        run(recipe(data), out, resume=True)


def test_a_run_killed_before_its_first_state_begins_again(
    finished: Path, data: Path, tmp_path: Path
) -> None:
    """With the text it began with, no log line twice, and a mistake in the recipe corrected."""
    out = tmp_path / "out"
    with pytest.raises(ValueError, match="cannot train a tokenizer of 10 pieces"):
        run(recipe(data, vocab_size=10), out)
    run_killed(recipe(data), out, RunFolder, "save_state", 1)
    assert not (out / "state.pt").exists()
    swap_lines(data)
    with pytest.raises(ConfigError, match="the training text has changed"):
        run(recipe(data), out, resume=True)
    swap_lines(data)
    run(recipe(data), out, resume=True)
    assert_same_bits(finished, out)
    assert logged(out) == logged(finished)


def test_a_damaged_state_is_named(finished: Path, data: Path, tmp_path: Path) -> None:
    out = Path(shutil.copytree(finished, tmp_path / "out"))
    state = out / "state.pt"
    torch.save({"model": {}, "optimizer": {}, "progress": {}}, state)
    for damage in (state.read_bytes(), b"", b"PK\x03\x04 cut"):
        state.write_bytes(damage)
        with pytest.raises(CheckpointError, match=r"state\.pt: cannot resume from it"):
            run(recipe(data), out, resume=True)


def test_a_full_disk_leaves_the_state_before(tmp_path: Path) -> None:
    """PyTorch's archive, when it cannot be closed, hides the system's error behind its own."""
    folder, progress = RunFolder(tmp_path), Progress(7, 1, 2, 3.5, 99)
    model = torch.nn.Linear(200, 300)
    optimizer = torch.optim.Adam(model.parameters())
    folder.save_state(model, optimizer, progress)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, before[1]))
    try:
        with pytest.raises(OSError, match=r"File too large: .*state\.pt'"):
            folder.save_state(model, optimizer, Progress())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "save", full)
        with pytest.raises(OSError, match=r"No space left on device: .*state\.pt'"):
            folder.save_state(model, optimizer, Progress())
    assert folder.load_state(model, optimizer, torch.device("cpu")) == progress
    assert [each.name for each in tmp_path.iterdir()] == ["state.pt"]
