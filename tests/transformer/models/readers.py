"""Everything that reads a model, for tests of untrusted folders."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.transformer.damage import (
    torch_file,
)
from transformer.catalogue import list_entries, open_tracer
from transformer.errors import CheckpointError
from transformer.huggingface import HuggingFaceModel
from transformer.importers.registry import FORMATS

#: Every reader, with its weights and its config. "table" is an imported checkpoint.
WEIGHTS = {
    "own": "model.safetensors", "table": "model.safetensors", "marian": "model.safetensors",
    "hf": "model.safetensors", "joeynmt": "7.ckpt", "fairseq": "checkpoint_best.pt",
}  # fmt: skip
CONFIGS = {
    "own": "config.json", "table": "config.json", "marian": "config.json", "hf": "config.json",
    "joeynmt": "config.yaml",
}  # fmt: skip
#: Torch files, in which pickles may stand, and the key of their weights.
TORCH = {
    "own": ("model.pt", "model"), "marian": ("pytorch_model.bin", "x"),
    "hf": ("pytorch_model.bin", "x"), "joeynmt": ("7.ckpt", "model_state"),
    "fairseq": ("checkpoint_best.pt", "model"),
}  # fmt: skip


def copied(whole: Path, kind: str, to: Path) -> Path:
    return Path(shutil.copytree(whole / kind, to / "root" / kind))


def opened(kind: str, folder: Path) -> None:
    """Open a model with the reader of its kind."""
    kind = {"shards": "marian"}.get(kind, kind).partition(" ")[0]
    if kind == "bart":
        list_entries([folder.parent])
        HuggingFaceModel.load(folder, "cpu")
    elif kind in FORMATS:
        FORMATS[kind].convert(folder, folder.parent / "made")
    else:
        list_entries([folder.parent])  # the list must survive it too
        open_tracer(folder, "cpu")


def refused(kind: str, folder: Path, reason: str = "") -> str:
    """Return the one line."""
    with pytest.raises(CheckpointError, match=reason) as caught:
        opened(kind, folder)
    line = str(caught.value)
    assert line.isprintable() and len(line) <= 640
    assert line.count(str(folder)) == 1 or kind not in FORMATS
    assert str(folder) in line and "headlight-tokenizer" not in line
    assert [each.name for each in folder.parent.iterdir()] == [kind]
    return line


def torch_path(kind: str, folder: Path) -> Path:
    """Return the torch file of a model, in the place of its safetensors file."""
    name, _ = TORCH[kind]
    if name != WEIGHTS[kind]:
        torch_file(lambda state: state, name)(folder)
    return folder / name
