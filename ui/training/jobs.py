"""Toy runs of this server, one at a time.

A run continues when its page is left. Its secret name, in the page's address, grants control of it;
others only see that a run is in progress. `HEADLIGHT_TRAIN=off` forbids runs; a public server
allows them only with `HEADLIGHT_TRAIN=on`.
"""

from __future__ import annotations

import atexit
import functools
import secrets
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from transformer.errors import CheckpointError
from transformer.files.leftovers import RUNS, own_prefix
from transformer.training.toys.files import KEPT, Control
from transformer.training.toys.run import train_toys
from transformer.training.toys.settings import ToySettings
from transformer.worker.job import UNKNOWN, Job, Register
from transformer.worker.process import start_alone
from ui.core import public
from ui.models.import_plan import adding, check_name

VARIABLE = public.TRAIN

#: Maximum number of stored runs; the oldest is removed first.
MOST_RUNS = 6

Phase = Literal["starting", "running", "paused", "done", "stopped", "failed"]


class BusyError(Exception):
    """Raised if a run cannot start now; the message is one line."""


@dataclass(frozen=True, eq=False)
class Training:
    """A run of one or two toys; `path` has a folder for each."""

    name: str
    path: Path
    settings: list[ToySettings]
    job: Job[bool]

    @property
    def control(self) -> Control:
        """The latest request to the run."""
        return self.job.request or Control()

    @property
    def update(self) -> int:
        """Number of updates made."""
        return self.job.progress[0]

    @property
    def running(self) -> bool:
        """True while the run works, waits or pauses."""
        return self.job.running

    @property
    def phase(self) -> Phase:
        """State of the run."""
        if self.job.phase == "done":
            return "done" if self.job.future.result() else "stopped"
        if self.job.phase != "running":
            return self.job.phase
        if self.job.progress == UNKNOWN:
            return "starting"
        paused = self.control.wish == "pause" and self.update >= self.control.until
        return "paused" if paused else "running"

    def lane(self, index: int) -> Path:
        """Return the folder of a model."""
        return self.path / str(index)


#: Runs by name.
JOBS: Register[str, Training] = Register(kept=MOST_RUNS)


def refusal() -> str | None:
    """Return why training is not allowed on this server, or None."""
    return public.job_refusal("Training in the app")


def find(name: str) -> Training | None:
    """Return the run of this name."""
    return JOBS.get(name)


def busy() -> str | None:
    """Return a sentence about the run in progress, or None."""
    for run in JOBS.running().values():
        most = max(settings.updates for settings in run.settings)
        return f"This server is training a model (update {run.update:,} of {most:,})."
    return None


def begin(settings: list[ToySettings]) -> Training:
    """Start a run. Raises `BusyError` if another is in progress or runs are not allowed."""
    why = refusal()
    if why is not None:
        raise BusyError(why)
    before, name = JOBS.all(), secrets.token_urlsafe(9)

    def start() -> Training:
        path = _place() / name
        path.mkdir(parents=True)
        return Training(name, path, settings, start_alone(train_toys, path, settings))

    try:
        run = JOBS.begin(name, start)
    except OSError as error:
        raise BusyError(f"The run cannot start: {error.strerror or error}.") from None
    if run is None:
        raise BusyError(f"{busy() or ''} You can start yours when it ends.".lstrip())
    for old in before.keys() - JOBS.all().keys():
        shutil.rmtree(before[old].path, ignore_errors=True)
    return run


def keep(run: Training, lane: int, name: str) -> None:
    """Copy a finished model to the checkpoints. Raises `CheckpointError` with one line."""
    model = run.lane(lane) / KEPT
    check_name(name)
    if not model.is_dir():
        raise CheckpointError("this model was not kept")
    try:
        with adding(name) as stage:
            shutil.copytree(model, stage / name)
    except OSError as error:
        raise CheckpointError(f"{name}: {error.strerror or error}") from None


@functools.cache
def _place() -> Path:
    """Make the folder of this server's runs, deleted when the server ends."""
    place = Path(tempfile.mkdtemp(prefix=own_prefix(RUNS)))
    atexit.register(_end, place)
    return place


def _end(place: Path) -> None:
    for run in JOBS.all().values():
        run.job.stop()
        run.job.ended(5.0)
    shutil.rmtree(place, ignore_errors=True)
