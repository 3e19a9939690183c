"""A small training run."""

import json
import os
import re
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from transformer.training.recipe import Recipe
from transformer.training.run import train

ROOT = Path(__file__).parents[3]

#: Two epochs of about nine updates; the large epsilon keeps Adam from amplifying rounding.
RECIPE = """
[model]
d_model = 12
n_heads = 3
d_ff = 16
n_encoder_layers = 1
n_decoder_layers = 2
dropout = 0.2
max_positions = 30

[tokenizer]
vocab_size = 40

[data]
corpora = ["pairs"]

[training]
epochs = 2
batch_tokens = 90
warmup = 5
average = 2
epsilon = 1e-3
precision = "float32"
save_every = 4
"""


def recipe(folder: Path, more: str = "", **settings: Any) -> Path:
    """Write the recipe with changed settings and extra lines."""
    text = f"{RECIPE}{more}\n"
    for name, value in settings.items():
        line = f"{name} = {json.dumps(value)}"
        text, count = re.subn(rf"^{name} = .*", lambda _, line=line: line, text, flags=re.M)
        assert count == 1, name
    path = folder / "recipe.toml"
    path.write_text(text)
    return path


def run(path: Path, out: Path, **options: Any) -> Path:
    options = {"device": "cpu", "show_progress": False} | options
    return train(Recipe.load(str(path)), path.parent, out, **options)


def weights(out: Path) -> dict[str, Tensor]:
    return safetensors.torch.load_file(out / "model.safetensors")


def assert_same_bits(out: Path, other: Path) -> None:
    assert (out / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()
    first, second = (torch.load(folder / "state.pt", weights_only=True) for folder in (out, other))
    for name, tensor in first["model"].items():
        assert torch.equal(tensor, second["model"][name]), name
    for index, moments in first["optimizer"]["state"].items():
        for name, tensor in moments.items():
            assert torch.equal(tensor, second["optimizer"]["state"][index][name])
    first["progress"]["seconds"] = second["progress"]["seconds"] = 0.0
    assert first["progress"] == second["progress"]


def log_lines(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def environment() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
