"""The files through which a training job and its watchers communicate.

    job.json            what to train: a list of `ToySettings`
    control.json        requests to the job, written by its watchers
    status.json         the job's phase and progress
    0/, 1/              a run folder for each model: metrics.jsonl as in every training run,
                        probe.json (its tokens), maps/UPDATE.npz, and at the end kept/

Each is written under another name and then renamed, so readers see whole files even if the writer
is killed; an incomplete last line of metrics.jsonl is ignored.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from transformer.config import ConfigError
from transformer.files.atomic import write_atomic
from transformer.toys.settings import ToySettings
from transformer.types import Floats

Wish = Literal["run", "pause", "stop"]
Phase = Literal["starting", "running", "paused", "done", "stopped", "failed"]

#: Folder of the finished checkpoint, in its model's folder.
KEPT = "kept"
#: Largest number of models of a job.
MOST_LANES = 2


@dataclass(frozen=True)
class Control:
    """A request to a job.

    Attributes:
        wish: go on, wait, or end.
        until: while waiting, go on to this update; each step asks for one more.
        factor: multiplies the schedule's learning rate.
    """

    wish: Wish = "run"
    until: int = 0
    factor: float = 1.0

    def __post_init__(self) -> None:
        if self.wish not in get_args(Wish) or type(self.until) is not int:
            raise ConfigError("not a request that a job accepts")
        if type(self.factor) is not float or not 0.01 <= self.factor <= 100:
            raise ConfigError(f"factor={self.factor!r} is not a number from 0.01 to 100")


@dataclass(frozen=True)
class Status:
    """State of a job: its phase, updates done, and the reason of a failure."""

    phase: Phase = "starting"
    update: int = 0
    error: str = ""

    @property
    def live(self) -> bool:
        """Whether the job is still running or waiting."""
        return self.phase in ("starting", "running", "paused")


class JobFolder:
    """The folder of one job."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path, settings: list[ToySettings]) -> JobFolder:
        """Make the folder of a new job."""
        if not 1 <= len(settings) <= MOST_LANES:
            raise ConfigError(f"a job trains 1 to {MOST_LANES} models, not {len(settings)}")
        path.mkdir(parents=True)
        folder = cls(path)
        folder._write("job.json", [dataclasses.asdict(each) for each in settings])
        folder.ask(Control())
        folder.tell(Status())
        return folder

    @property
    def settings(self) -> list[ToySettings]:
        """Return the settings of the job's models."""
        return [ToySettings.from_dict(each) for each in self._read("job.json", [])]

    def lane(self, index: int) -> Path:
        """Return the run folder of a model."""
        return self.path / str(index)

    def ask(self, control: Control) -> None:
        """Write a request."""
        self._write("control.json", dataclasses.asdict(control))

    def asked(self) -> Control:
        """Return the latest request."""
        try:
            return Control(**self._read("control.json", {}))
        except (TypeError, ConfigError):
            return Control()

    def tell(self, status: Status) -> None:
        """Write the status."""
        self._write("status.json", dataclasses.asdict(status))

    def status(self) -> Status:
        """Return the latest status."""
        try:
            return Status(**self._read("status.json", {}))
        except TypeError:
            return Status("failed", 0, "the files of this run are damaged")

    def _write(self, name: str, value: Any) -> None:
        write_atomic(self.path / name, json.dumps(value).encode())

    def _read(self, name: str, missing: Any) -> Any:
        try:
            return json.loads((self.path / name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return missing


def write_maps(path: Path, update: int, maps: dict[str, Floats]) -> None:
    """Write the maps of an update, in half precision."""
    (path / "maps").mkdir(exist_ok=True)
    file = path / "maps" / f"{update:06d}.npz"
    partial = file.with_suffix(".partial")
    with open(partial, "wb") as out:
        halves: dict[str, Any] = {kind: each.astype(np.float16) for kind, each in maps.items()}
        np.savez(out, **halves)
    partial.replace(file)


def map_updates(path: Path) -> list[int]:
    """Return the updates whose maps were recorded, in order."""
    return sorted(int(file.stem) for file in (path / "maps").glob("*.npz"))


def read_maps(path: Path, update: int) -> dict[str, Floats]:
    """Return the maps of an update, by kind [L, H, T, S]. Raises `OSError` without them."""
    with np.load(path / "maps" / f"{update:06d}.npz", allow_pickle=False) as file:
        return {kind: file[kind].astype(np.float32) for kind in file.files}


def write_probe(path: Path, source: list[str], target: list[str]) -> None:
    """Write the pieces of the maps' rows and columns."""
    write_atomic(path / "probe.json", json.dumps([source, target]).encode())


def read_probe(path: Path) -> tuple[list[str], list[str]] | None:
    """Return the pieces of the probe, or None before the job has written them."""
    try:
        source, target = json.loads((path / "probe.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return source, target
