"""The folder of a training run, which can resume after being killed at any point.

    recipe.json       the recipe and the text's fingerprint
    tokenizer.model   trained once, at the start
    state.pt          weights, optimizer and counters to resume from
    metrics.jsonl     one line per logged update and per epoch
    epochs/           weights of the last epochs, for averaging
    snapshots/        weights during training, in half precision, named by their updates
    tensorboard/      events, on request

At the end, the checkpoint is added (see `transformer.checkpoint.folder`). Files are written
atomically: they get their name once they are on disk.
"""

import dataclasses
import io
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from transformer.checkpoint.folder import TWO_STACKS, ModelClass
from transformer.checkpoint.weights import Layout, describe_weights, read_tensors
from transformer.config import ConfigError, parse_json
from transformer.files.folders import TEMPORARY, write_atomic
from transformer.models.one_stack.model import ONE_STACK
from transformer.training.recipe import Recipe
from transformer.training.watching import read_metrics
from transformer.types import CheckpointError

log = logging.getLogger(__name__)

#: Key of the training text's fingerprint in recipe.json.
_TEXT = "text"
#: Settings that a resumed run may change.
RESUMABLE = {"epochs", "max_updates", "average", "save_every", "compile"}


@dataclass
class Progress:
    """Updates made, epoch (from 0), batches done in it, time in seconds, and target tokens seen."""

    update: int = 0
    epoch: int = 0
    batch: int = 0
    seconds: float = 0.0
    tokens: int = 0
    #: since the last logged update: negative log-likelihood in nats, and target tokens
    nll: float = 0.0
    n_tokens: int = 0


class RunFolder:
    """One run's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.recipe, self.tokenizer = path / "recipe.json", path / "tokenizer.model"
        self.state, self.metrics = path / "state.pt", path / "metrics.jsonl"

    def claim(self, recipe: Recipe, text: str, *, resume: bool) -> None:
        """Claim the folder for `recipe`'s run, or check that it holds that run.

        Args: text: fingerprint of the training text.

        Raises: `ConfigError`, without changing anything.
        """
        values = json.loads(json.dumps(recipe.to_dict()))
        results = (self.tokenizer, self.state, self.path / "model.safetensors")
        if any(file.exists() for file in results):
            if not resume:
                raise ConfigError(f"{self.path} already holds a run; use --resume or another --out")
            self._check_same(values, text)
        self.path.mkdir(parents=True, exist_ok=True)
        files = (file for kind in ("*", "epochs/*", "snapshots/*") for file in self.path.glob(kind))
        partial = [file for file in files if TEMPORARY.fullmatch(file.name)]
        for file in partial:  # may be large
            file.unlink(missing_ok=True)
        if partial:
            log.info("%s: removed %d temporary files of a killed process", self.path, len(partial))
        write_atomic(self.recipe, (json.dumps(values | {_TEXT: text}, indent=2) + "\n").encode())
        if not self.state.exists():  # the run starts over
            self.metrics.unlink(missing_ok=True)

    def read_recipe(self) -> Recipe:
        """Read the run's recipe. Raises `ConfigError` naming the file."""
        try:
            values = parse_json(self.recipe.read_text(encoding="utf-8"))
            values.pop(_TEXT, None)
            return Recipe.from_record(values)
        except (OSError, ValueError, AttributeError) as error:
            raise ConfigError(f"{self.recipe}: {error}") from None

    def _check_same(self, values: Mapping[str, Mapping[str, Any]], text: str) -> None:
        rule = "a run is resumed with the recipe and text it began with"
        try:
            stored = parse_json(self.recipe.read_text(encoding="utf-8"))
            for table, settings in values.items():
                for name, now in settings.items():
                    before = stored.get(table, {}).get(name)
                    if name not in RESUMABLE and before != now:
                        change = f"[{table}] {name} was {before!r} and is now {now!r}"
                        raise ConfigError(f"{self.recipe}: {change}; {rule}")
            changed_text = stored.get(_TEXT, text) != text  # older runs have none
        except ConfigError:
            raise
        except (OSError, ValueError, AttributeError) as error:
            raise ConfigError(f"{self.recipe}: cannot resume without it: {error}") from None
        if changed_text:
            raise ConfigError(f"{self.recipe}: the training text has changed; {rule}")

    def save_state(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, progress: Progress
    ) -> None:
        """Write state.pt. Raises `OSError` naming it, and keeps the previous file."""
        state = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "progress": dataclasses.asdict(progress),
            "threads": torch.get_num_threads(),
        }
        file = io.BytesIO()
        torch.save(state, file)
        write_atomic(self.state, file.getbuffer())

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
            reason = f"{type(error).__name__}: {error}"  # the message may be a bare key or number
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
        """Remove metrics.jsonl lines that a run resumed at this progress will write again."""
        # An epoch's last line may have the same update as the state saved just before.
        kept = [
            json.dumps(line) + "\n"
            for line in read_metrics(self.path)
            if line["update"] <= progress.update and line["epoch"] <= progress.epoch
        ]
        if self.metrics.exists():
            write_atomic(self.metrics, "".join(kept).encode())

    def save_epoch(self, model: nn.Module, epoch: int, keep: int) -> None:
        """Write an epoch's weights (counted from 1), keeping only the last `keep` files."""
        self._save_weights(model, "epochs", f"{epoch:04d}", torch.float32)
        for old in self.epochs()[:-keep]:
            old.unlink()

    def save_snapshot(self, model: nn.Module, update: int) -> None:
        """Write an update's weights in half precision."""
        self._save_weights(model, "snapshots", f"{update:06d}", torch.float16)

    def _save_weights(self, model: nn.Module, kind: str, name: str, dtype: torch.dtype) -> None:
        (self.path / kind).mkdir(exist_ok=True)
        own = Layout.of(model).own(model.state_dict())
        stored = {name: tensor.to("cpu", dtype) for name, tensor in own.items()}
        write_atomic(self.path / kind / f"{name}.safetensors", safetensors.torch.save(stored))

    def epochs(self) -> list[Path]:
        """List the epochs' weight files, oldest first."""
        files = (self.path / "epochs").glob("*.safetensors")
        return sorted(files, key=lambda file: file.stem.zfill(12))


def files_of(recipe: Recipe) -> ModelClass[Any, Any, Any]:
    """Return the checkpoint format of a recipe's model."""
    return TWO_STACKS if recipe.stack is None else ONE_STACK


def average_weights(files: Sequence[Path], model: nn.Module) -> dict[str, Tensor]:
    """Return the average of several files' weights (section 6.1) as the model's state dict."""
    total: dict[str, Tensor] = {}
    for file in files:
        for name, tensor in read_tensors(file, describe_weights(file)):
            total[name] = total[name] + tensor.double() if name in total else tensor.double()
    mean = {name: (tensor / len(files)).float() for name, tensor in total.items()}
    return Layout.of(model).whole(mean)
