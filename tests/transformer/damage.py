"""Ways to damage a model's folder, for tests of the messages."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from tests.transformer.importers.foreign import written

Damage = Callable[[Path], object]


def edit(name: str, **changes: object) -> Damage:
    """Change values of a JSON file, which may be missing; `...` takes a key away."""

    def change(folder: Path) -> None:
        path = folder / name
        values = (json.loads(path.read_text()) if path.exists() else {}) | changes
        path.write_text(json.dumps({k: v for k, v in values.items() if v is not ...}))

    return change


def cut(name: str, share: float) -> Damage:
    """Keep the first part of a file."""

    def change(folder: Path) -> None:
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[: int(share * len(data))])

    return change


def weights(change: Callable[[dict[str, torch.Tensor]], object]) -> Damage:
    """Change the tensors of model.safetensors."""

    def damage(folder: Path) -> None:
        state = safetensors.torch.load_file(folder / "model.safetensors")
        change(state)
        safetensors.torch.save_file(state, folder / "model.safetensors", {"format": "pt"})

    return damage


def content(change: Callable[[dict[str, Any]], object]) -> Damage:
    """Change the content of the folder's only torch file."""

    def damage(folder: Path) -> None:
        (path,) = [*folder.glob("*.pt"), *folder.glob("*.ckpt")]
        values = written(path)
        change(values)
        torch.save(values, path)

    return damage


def write(name: str, data: bytes) -> Damage:
    return lambda folder: (folder / name).write_bytes(data)


def remove(name: str) -> Damage:
    return lambda folder: (folder / name).unlink()


class Evil:
    """Makes the file `mark` when unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.mark,)


def plant_code(folder: Path, mark: Path, bare: bool) -> None:
    """Replace the weights by a torch file, or a bare pickle, that makes `mark` when unpickled."""
    (folder / "model.safetensors").unlink()
    path = folder / "pytorch_model.bin"
    if bare:
        path.write_bytes(pickle.dumps(Evil(mark)))
    else:
        torch.save({"weight": Evil(mark)}, path)
