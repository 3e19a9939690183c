"""Training in two processes that a real torchrun starts."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.transformer.training.runs import ROOT, environment, log_lines, recipe, run, weights


@pytest.fixture
def uneven(data: Path) -> Path:
    """A recipe with batches that leave one process with fewer rows, or none."""
    longest = " ".join(["dog"] * 16)  # a batch of its own
    for end in ("en", "de"):
        with open(data / f"pairs.{end}", "a") as file:
            file.write(longest + "\n")
    return recipe(data, "clip_norm = 1.0", epochs=1, dropout=0.0)


def free_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def check_two_processes(path: Path, folder: Path, command: list[str]) -> None:
    """Check that a run in this process and one by `command`, in two, give the same weights."""
    run(path, folder / "one")
    command = [sys.executable, *command, "train", str(path), "--data", str(path.parent)]
    command += ["--out", str(folder / "two"), "--device", "cpu", "--quiet"]
    done = subprocess.run(
        command, env=environment(), cwd=ROOT, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr
    one, two = weights(folder / "one"), weights(folder / "two")
    assert one.keys() == two.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, atol=1e-6, rtol=1e-5)
    first, second = log_lines(folder / "one")[-1], log_lines(folder / "two")[-1]
    assert first["val_nll"] == pytest.approx(second["val_nll"], abs=1e-5)
    assert first["tokens"] == second["tokens"]
    about = json.loads((folder / "two" / "metrics.json").read_text())["training"]
    assert about["processes"] == 2


def test_torchrun_matches_one_process(uneven: Path, tmp_path: Path) -> None:
    command = ["-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--master-addr", "127.0.0.1", "--master-port", free_port(), "-m", "transformer"]
    check_two_processes(uneven, tmp_path, command)
