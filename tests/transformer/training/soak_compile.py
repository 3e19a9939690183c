"""Compiled training, and training without a compiler. Takes a minute: see `make soak`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.transformer.training.runs import ROOT, log_lines, recipe

#: PyTorch compiles nothing when its own folder has a space in its path.
SPACED = " " in torch.__path__[0]

COMMAND = (sys.executable, "-m", "transformer", "train")


@pytest.mark.parametrize("compiler", [None, "/nowhere/c++"])
def test_a_run_ends_with_and_without_a_compiler(
    data: Path, tmp_path: Path, compiler: str | None
) -> None:
    path, out = recipe(data, "compile = true"), tmp_path / "out"
    given = {"CXX": compiler} if compiler else {}
    done = subprocess.run(
        [*COMMAND, str(path), "--data", str(data), "--out", str(out), "--device", "cpu"],
        env={**os.environ, **given, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")},
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "compiling for this machine" in done.stderr
    assert ("not compiled, so updates are slower" in done.stderr) == (bool(compiler) or SPACED)
    assert ("a space in its name" in done.stderr) == SPACED
    assert log_lines(out)[-1]["epoch"] == 2
