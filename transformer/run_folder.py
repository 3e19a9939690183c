"""What a training run keeps on disk, so that it can be killed at any moment and go on.

    recipe.json       the recipe it began with
    tokenizer.model   trained once, at the start
    state.pt          weights, optimizer and counters to resume from
    metrics.jsonl     a line per logged update and per epoch
    epochs/           weights after each of the last epochs, to be averaged
    tensorboard/      events, on request

and, at the end, the checkpoint that it made (see `transformer.checkpoint`). Files appear whole or
not at all: each is written under another name and renamed when it is on the disk.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from transformer.checkpoint import CheckpointError, write_atomic
from transformer.config import ConfigError
from transformer.recipe import Recipe

#: Settings that may change between a run and its continuation.
RESUMABLE = {"epochs", "max_updates", "average", "save_every", "compile"}


class RunFolder:
    """The folder of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.recipe, self.tokenizer = path / "recipe.json", path / "tokenizer.model"
        self.state, self.metrics = path / "state.pt", path / "metrics.jsonl"
        self.epochs = path / "epochs"

    @property
    def begun(self) -> bool:
        """Whether there is anything that a new run would destroy."""
        made = (self.tokenizer, self.state, self.path / "model.safetensors")
        return any(file.exists() for file in made)

    def claim(self, recipe: Recipe, *, resume: bool) -> None:
        """Make this the folder of `recipe`'s run, or check that it is. Raises `ConfigError`."""
        wanted = json.loads(json.dumps(recipe.to_dict()))
        if self.begun:
            if not resume:
                raise ConfigError(f"{self.path} holds a run already; use --resume or another --out")
            self._check_same(wanted)
        self.path.mkdir(parents=True, exist_ok=True)
        write_atomic(self.recipe, (json.dumps(wanted, indent=2) + "\n").encode())

    def _check_same(self, wanted: Mapping[str, Mapping[str, Any]]) -> None:
        try:
            found = json.loads(self.recipe.read_text(encoding="utf-8"))
            changed = [
                (table, name, found.get(table, {}).get(name), value)
                for table, values in wanted.items()
                for name, value in values.items()
                if name not in RESUMABLE and found.get(table, {}).get(name) != value
            ]
        except (OSError, ValueError, AttributeError) as error:
            raise ConfigError(f"{self.recipe}: cannot resume without it: {error}") from None
        for table, name, before, now in changed:
            raise ConfigError(
                f"{self.recipe}: [{table}] {name} was {before!r} and is now {now!r}; "
                "a run is resumed with the recipe it began with"
            )

    def save_state(self, state: Mapping[str, Any]) -> None:
        """Write state.pt."""
        written = io.BytesIO()
        torch.save(dict(state), written)
        write_atomic(self.state, written.getvalue())

    def load_state(self, device: torch.device) -> dict[str, Any]:
        """Read state.pt. Raises `CheckpointError` where it is not one."""
        try:
            state = torch.load(self.state, map_location=device, weights_only=True)
        except Exception as error:  # noqa: BLE001 - a damaged file may fail in any way
            raise CheckpointError(f"{self.state}: cannot resume from it: {error}") from None
        if not isinstance(state, dict) or {"model", "optimizer", "progress"} - set(state):
            raise CheckpointError(f"{self.state}: cannot resume from it: not a training state")
        return state

    def log(self, line: Mapping[str, Any]) -> None:
        """Append a line to metrics.jsonl."""
        with open(self.metrics, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def forget_after(self, update: int, epoch: int) -> None:
        """Drop log lines that a run resumed at this update, with so many epochs done, repeats."""
        if not self.metrics.exists():
            return
        kept = []
        for line in self.metrics.read_text(encoding="utf-8").splitlines():
            if not line.endswith("}"):
                continue  # cut off when the run was killed
            values = json.loads(line)
            if values["update"] <= update and values["epoch"] <= epoch:
                kept.append(line)
        write_atomic(self.metrics, "".join(line + "\n" for line in kept).encode())

    def save_epoch(self, number: int, state: Mapping[str, Tensor], *, keep: int) -> None:
        """Write the weights after an epoch, counted from 1, and delete all but the last `keep`."""
        self.epochs.mkdir(exist_ok=True)
        shared: dict[int, str] = {}
        unique = {
            name: tensor.cpu()
            for name, tensor in state.items()
            if shared.setdefault(tensor.data_ptr(), name) == name
        }
        write_atomic(
            self.epochs / f"{number:04d}.safetensors", safetensors.torch.save(unique)
        )
        for old in self.last_epochs(number)[:-keep]:
            old.unlink()

    def last_epochs(self, n: int) -> list[Path]:
        """Files of the last `n` epochs kept, oldest first."""
        files = sorted(self.epochs.glob("*.safetensors"), key=lambda file: int(file.stem))
        return files[max(len(files) - n, 0) :]


def average_weights(files: Sequence[Path]) -> dict[str, Tensor]:
    """Mean of the weights in several safetensors files (section 6.1), tied ones put back."""
    total: dict[str, Tensor] = {}
    for file in files:
        try:
            tensors = safetensors.torch.load_file(file)
        except (safetensors.SafetensorError, OSError) as error:
            raise CheckpointError(f"{file}: cannot be averaged: {error}") from None
        for name, tensor in tensors.items():
            total[name] = total[name] + tensor.double() if name in total else tensor.double()
    mean = {name: (tensor / len(files)).float() for name, tensor in total.items()}
    for name in ("tgt_embedding.weight", "generator.weight"):
        mean.setdefault(name, mean.get("tgt_embedding.weight", mean["src_embedding.weight"]))
    return mean
