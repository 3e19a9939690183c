"""Training runs in processes, compiled and under torchrun, for `make soak`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.servers import free_port
from tests.transformer.training import runs
from transformer.config import ModelConfig
from transformer.model import Transformer
from transformer.training.objective import Objective
from transformer.training.recipe import TrainingRecipe

#: PyTorch compiles nothing when its own folder has a space in its path.
SPACED = " " in torch.__path__[0]

COMMAND = (sys.executable, "-m", "transformer", "train")


@pytest.mark.parametrize("compiler", [None, "/nowhere/c++"])
def test_runs_need_no_compiler(data: Path, tmp_path: Path, compiler: str | None) -> None:
    path, out = runs.recipe(data, "compile = true"), tmp_path / "out"
    given = {"CXX": compiler} if compiler else {}
    done = subprocess.run(
        [*COMMAND, str(path), "--data", str(data), "--out", str(out), "--device", "cpu"],
        env={**os.environ, **given, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")},
        cwd=runs.ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "compiling for this machine" in done.stderr
    assert ("not compiled, so updates are slower" in done.stderr) == (bool(compiler) or SPACED)
    assert ("a space in its name" in done.stderr) == SPACED
    assert runs.log_lines(out)[-1]["epoch"] == 2


@pytest.mark.skipif(SPACED, reason="PyTorch cannot compile from a folder with a space in its name")
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # PyTorch's compiler uses it
def test_compiled_updates_are_the_same() -> None:
    torch.manual_seed(0)
    model = Transformer(
        ModelConfig(vocab_size=40, d_model=16, n_heads=4, d_ff=24, n_encoder_layers=1,
                    n_decoder_layers=2, dropout=0.3, max_positions=32)
    )  # fmt: skip
    objective = Objective(model, TrainingRecipe())
    made = torch.compile(objective, dynamic=True)
    for rows, source, target in ((5, 7, 9), (3, 12, 4), (8, 6, 11)):
        src = torch.randint(1, 40, (rows, source))
        src[0, 3:] = 0
        tgt_in, tgt_out = torch.randint(1, 40, (2, rows, target))
        tgt_out[1, 2:] = 0
        results = []
        for each in (objective, made):
            torch.manual_seed(1)
            loss, nll = each(src, tgt_in, tgt_out)
            gradients = torch.autograd.grad(loss, list(model.parameters()))
            results.append([loss.detach(), nll, *gradients])
        torch.testing.assert_close(results[1], results[0], atol=1e-4, rtol=1e-4)


@pytest.fixture
def uneven(data: Path) -> Path:
    """A recipe with batches that leave a process with few or no rows."""
    longest = " ".join(["dog"] * 16)  # a batch of its own
    for end in ("en", "de"):
        with open(data / f"pairs.{end}", "a") as file:
            file.write(longest + "\n")
    return runs.recipe(data, "clip_norm = 1.0", epochs=1, dropout=0.0)


def test_torchrun_matches_one_process(uneven: Path, tmp_path: Path) -> None:
    path, folder = uneven, tmp_path
    runs.run(path, folder / "one")
    command = [
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-addr",
        "127.0.0.1", "--master-port", str(free_port()), "-m", "transformer", "train", str(path),
        "--data", str(path.parent), "--out", str(folder / "two"), "--device", "cpu", "--quiet",
    ]  # fmt: skip
    done = subprocess.run(
        command, env=runs.environment(), cwd=runs.ROOT, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr
    one, two = runs.weights(folder / "one"), runs.weights(folder / "two")
    assert one.keys() == two.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, atol=1e-6, rtol=1e-5)
    first, second = runs.log_lines(folder / "one")[-1], runs.log_lines(folder / "two")[-1]
    assert first["val_nll"] == pytest.approx(second["val_nll"], abs=1e-5)
    assert first["tokens"] == second["tokens"]
    about = json.loads((folder / "two" / "metrics.json").read_text())["training"]
    assert about["processes"] == 2
