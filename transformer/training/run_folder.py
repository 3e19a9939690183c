"""The folder of a training run, which can resume after being killed at any point.

    recipe.json       the recipe and the fingerprint of the text
    tokenizer.model   trained once, at the start
    state.pt          weights, optimizer and counters to resume from
    metrics.jsonl     a line per logged update and per epoch
    epochs/           weights after each of the last epochs, for averaging
    snapshots/        weights on the way, in half precision, named by their updates
    tensorboard/      events, on request

and, at the end, the checkpoint (see `transformer.checkpoint.folder`). Files are written
atomically: each is renamed from a temporary name once it is on disk.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from transformer.checkpoint.weights import describe_weights, read_tensors
from transformer.config import ConfigError, parse_json
from transformer.errors import CheckpointError
from transformer.files.atomic import TEMPORARY, write_atomic
from transformer.training.recipe import Recipe
from transformer.training.watching import read_metrics

log = logging.getLogger(__name__)

#: Name of state.pt while it is written.
_PARTIAL = "state.pt.partial"
#: Key of the training text's fingerprint in recipe.json.
_TEXT = "text"
#: Settings that may change between a run and its continuation.
RESUMABLE = {"epochs", "max_updates", "average", "save_every", "compile"}


@dataclass
class Progress:
    """Progress of a run: updates made, epoch (from 0), batches done in it, time, tokens seen."""

    update: int = 0
    epoch: int = 0
    batch: int = 0
    seconds: float = 0.0
    tokens: int = 0
    #: since the last line of an update: negative log-likelihood in nats, and target tokens
    nll: float = 0.0
    n_tokens: int = 0


class RunFolder:
    """The folder of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.recipe, self.tokenizer = path / "recipe.json", path / "tokenizer.model"
        self.state, self.metrics = path / "state.pt", path / "metrics.jsonl"

    @property
    def begun(self) -> bool:
        """True if a new run would overwrite files."""
        made = (self.tokenizer, self.state, self.path / "model.safetensors")
        return any(file.exists() for file in made)

    def claim(self, recipe: Recipe, text: str, *, resume: bool) -> None:
        """Make this the folder of `recipe`'s run, or check that it is.

        Args: text: fingerprint of the training text.

        Raises: `ConfigError`, and then nothing has changed.
        """
        wanted = json.loads(json.dumps(recipe.to_dict()))
        if self.begun:
            if not resume:
                raise ConfigError(f"{self.path} holds a run already; use --resume or another --out")
            self._check_same(wanted, text)
        self.path.mkdir(parents=True, exist_ok=True)
        files = (each for kind in ("*", "epochs/*", "snapshots/*") for each in self.path.glob(kind))
        begun = [each for each in files if TEMPORARY.fullmatch(each.name) or each.name == _PARTIAL]
        for file in begun:  # which may be as large as whole ones
            file.unlink(missing_ok=True)
        if begun:
            log.info("%s: removed %d temporary files of a killed process", self.path, len(begun))
        write_atomic(self.recipe, (json.dumps(wanted | {_TEXT: text}, indent=2) + "\n").encode())
        if not self.state.exists():  # lines of a run that has to start over
            self.metrics.unlink(missing_ok=True)

    def read_recipe(self) -> Recipe:
        """Return the recipe of the folder's run. Raises `ConfigError` naming the file."""
        try:
            values = parse_json(self.recipe.read_text(encoding="utf-8"))
            values.pop(_TEXT, None)
            return Recipe.from_record(values)
        except (OSError, ValueError, AttributeError) as error:
            raise ConfigError(f"{self.recipe}: {error}") from None

    def _check_same(self, wanted: Mapping[str, Mapping[str, Any]], text: str) -> None:
        try:
            found = parse_json(self.recipe.read_text(encoding="utf-8"))
            changed = [
                (table, name, found.get(table, {}).get(name), value)
                for table, values in wanted.items()
                for name, value in values.items()
                if name not in RESUMABLE and found.get(table, {}).get(name) != value
            ]
            same_text = found.get(_TEXT, text) == text  # missing in older runs
        except (OSError, ValueError, AttributeError) as error:
            raise ConfigError(f"{self.recipe}: cannot resume without it: {error}") from None
        for table, name, before, now in changed:
            raise ConfigError(
                f"{self.recipe}: [{table}] {name} was {before!r} and is now {now!r}; "
                "a run is resumed with the recipe it began with"
            )
        if not same_text:
            raise ConfigError(
                f"{self.recipe}: the training text has changed since the run began; "
                "a run is resumed with the text it began with"
            )

    def save_state(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, progress: Progress
    ) -> None:
        """Write state.pt. Raises `OSError` naming it, and then keeps the previous one."""
        state = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "progress": dataclasses.asdict(progress),
            "threads": torch.get_num_threads(),
        }
        temporary = self.state.with_name(_PARTIAL)
        try:
            with open(temporary, "wb") as file:
                torch.save(state, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self.state)
        except (OSError, RuntimeError) as error:
            temporary.unlink(missing_ok=True)  # on a full disk it would occupy space
            # PyTorch raises another error as it closes the archive, which hides the system's.
            cause = error.__context__ if isinstance(error, RuntimeError) else error
            if not isinstance(cause, OSError):
                raise
            raise OSError(cause.errno, cause.strerror or str(cause), str(self.state)) from None

    def load_state(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device
    ) -> Progress:
        """Restore model and optimizer from state.pt. Raises `CheckpointError` if it is damaged."""
        try:
            state = torch.load(self.state, map_location=device, weights_only=True)
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            progress = Progress(**state["progress"])
        except Exception as error:  # noqa: BLE001 - a damaged file may fail in any way
            reason = f"{type(error).__name__}: {error}"  # a bare key or number is meaningless
            raise CheckpointError(f"{self.state}: cannot resume from it: {reason}") from None
        threads = state.get("threads", torch.get_num_threads())
        if threads != torch.get_num_threads():
            log.warning(
                "the run used %d threads and now uses %d: sums may round differently",
                threads, torch.get_num_threads(),
            )  # fmt: skip
        return progress

    def log(self, kind: str, progress: Progress, values: Mapping[str, float]) -> None:
        """Append a line to metrics.jsonl."""
        line: dict[str, Any] = {"kind": kind, "update": progress.update, "epoch": progress.epoch}
        line |= {name: round(value, 6) for name, value in values.items()}
        line |= {"seconds": round(progress.seconds, 1), "tokens": progress.tokens}
        try:
            with open(self.metrics, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise OSError(error.errno, error.strerror or str(error), str(self.metrics)) from None

    def drop_lines_after(self, progress: Progress) -> None:
        """Remove the lines of metrics.jsonl that a run resumed here will write again."""
        # An epoch's last line may have the same update as the state saved just before.
        kept = [
            json.dumps(line) + "\n"
            for line in read_metrics(self.path)
            if line["update"] <= progress.update and line["epoch"] <= progress.epoch
        ]
        if self.metrics.exists():
            write_atomic(self.metrics, "".join(kept).encode())

    def save_epoch(self, model: nn.Module, epoch: int, keep: int) -> None:
        """Write the weights after an epoch, counted from 1; delete all but the last `keep`."""
        self._save_weights(model, "epochs", f"{epoch:04d}", torch.float32)
        for old in self.epochs()[:-keep]:
            old.unlink()

    def save_snapshot(self, model: nn.Module, update: int) -> None:
        """Write the weights after an update in half precision."""
        self._save_weights(model, "snapshots", f"{update:06d}", torch.float16)

    def _save_weights(self, model: nn.Module, kind: str, name: str, dtype: torch.dtype) -> None:
        (self.path / kind).mkdir(exist_ok=True)
        shared: dict[int, str] = {}
        unique = {
            name: tensor.to("cpu", dtype)
            for name, tensor in model.state_dict().items()
            if shared.setdefault(tensor.data_ptr(), name) == name
        }
        write_atomic(self.path / kind / f"{name}.safetensors", safetensors.torch.save(unique))

    def epochs(self) -> list[Path]:
        """List the epochs' weight files, oldest first."""
        files = (self.path / "epochs").glob("*.safetensors")
        return sorted(files, key=lambda file: file.stem.zfill(12))


def average_weights(files: Sequence[Path]) -> dict[str, Tensor]:
    """Average the weights of several safetensors files (section 6.1), restoring tied ones.

    A model of one stack has one tied matrix, and keeps it in one parameter.
    """
    total: dict[str, Tensor] = {}
    for file in files:
        for name, tensor in read_tensors(file, describe_weights(file)):
            total[name] = total[name] + tensor.double() if name in total else tensor.double()
    mean = {name: (tensor / len(files)).float() for name, tensor in total.items()}
    if "embedding.weight" in mean:
        return mean | {"generator.weight": mean["embedding.weight"]}
    for name in ("tgt_embedding.weight", "generator.weight"):
        mean.setdefault(name, mean.get("tgt_embedding.weight", mean["src_embedding.weight"]))
    return mean
