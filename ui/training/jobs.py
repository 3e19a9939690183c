"""Toy runs on this server, one at a time.

A run continues after its visitor leaves the page. Its secret name, in the page's URL, grants
control; other visitors only see that a run is in progress. `HEADLIGHT_TRAIN=off` forbids runs; a
public server allows them only with `HEADLIGHT_TRAIN=on`.
"""

import atexit
import functools
import secrets
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from transformer.files.folders import RUNS, own_prefix
from transformer.training.toys.files import KEPT, Control
from transformer.training.toys.run import train_toys
from transformer.training.toys.settings import ToySettings
from transformer.types import CheckpointError
from transformer.worker.job import UNKNOWN, Job, Register
from transformer.worker.process import start_alone
from ui.core import public
from ui.models.import_plan import adding, check_name

Phase = Literal["starting", "running", "paused", "done", "stopped", "failed"]


class BusyError(Exception):
    """Raised if a run cannot start now, with a message of one line."""


@dataclass(frozen=True, eq=False)
class Training:
    """A run of one or two toy models, each with a folder in `path`."""

    name: str
    path: Path
    settings: list[ToySettings]
    job: Job[bool]

    @property
    def control(self) -> Control:
        """The latest request."""
        return self.job.request or Control()

    @property
    def update(self) -> int:
        """Number of updates made."""
        return self.job.progress[0]

    @property
    def running(self) -> bool:
        """True until the run ends."""
        return self.job.running

    @property
    def phase(self) -> Phase:
        """The run's state."""
        if self.job.phase == "done":
            return "done" if self.job.future.result() else "stopped"
        if self.job.phase != "running":
            return self.job.phase
        if self.job.progress == UNKNOWN:
            return "starting"
        paused = self.control.wish == "pause" and self.update >= self.control.until
        return "paused" if paused else "running"

    def lane(self, index: int) -> Path:
        """Return a model's folder."""
        return self.path / str(index)


#: The last 6 runs by name.
JOBS: Register[str, Training] = Register(kept=6)


def refusal() -> str | None:
    """Return why this server does not allow training, or None if it does."""
    return public.job_refusal("Training in the app")


def busy() -> str | None:
    """Return a sentence about the run in progress, or None if there is none."""
    for run in JOBS.running().values():
        most = max(settings.updates for settings in run.settings)
        return f"This server is training a model (update {run.update:,} of {most:,})."
    return None


def begin(settings: list[ToySettings]) -> Training:
    """Start a run. Raises `BusyError` if a run is in progress or runs are not allowed."""
    if (why := refusal()) is not None:
        raise BusyError(why)
    before, name = JOBS.all(), secrets.token_urlsafe(9)

    def start() -> Training:
        path = _runs_folder() / name
        path.mkdir(parents=True)
        return Training(name, path, settings, start_alone(train_toys, path, settings))

    try:
        run = JOBS.begin(name, start)
    except OSError as error:
        raise BusyError(f"The run cannot start: {error.strerror or error}.") from None
    if run is None:
        raise BusyError(f"{busy() or ''} You can start your run when it ends.".lstrip())
    for old in before.keys() - JOBS.all().keys():
        shutil.rmtree(before[old].path, ignore_errors=True)
    return run


def keep(run: Training, lane: int, name: str) -> None:
    """Copy a trained model to the checkpoints. Raises `CheckpointError`, one line."""
    model = run.lane(lane) / KEPT
    check_name(name)
    if not model.is_dir():
        raise CheckpointError("this run kept no model")
    try:
        with adding(name) as stage:
            shutil.copytree(model, stage / name)
    except OSError as error:
        raise CheckpointError(f"{name}: {error.strerror or error}") from None


@functools.cache
def _runs_folder() -> Path:
    """Make the folder of this server's runs; it is deleted when the server ends."""
    folder = Path(tempfile.mkdtemp(prefix=own_prefix(RUNS)))

    @atexit.register
    def end() -> None:
        for run in JOBS.all().values():
            run.job.stop()
            run.job.ended(5.0)
        shutil.rmtree(folder, ignore_errors=True)

    return folder
