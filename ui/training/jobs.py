"""Training jobs of this server: processes of their own, one at a time.

A job outlives the page run that started it. Its name is a secret in the page's address, which lets
one steer it; others only see that a job is running. `HEADLIGHT_TRAIN=off` allows none; a public
server allows them only if `HEADLIGHT_TRAIN=on` is set.
"""

from __future__ import annotations

import atexit
import functools
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

from transformer.errors import CheckpointError
from transformer.files.leftovers import STAGE, own_prefix
from transformer.importers.finish import put_in_place
from transformer.toys.files import KEPT, JobFolder, Status
from transformer.toys.job import DISK_FULL
from transformer.toys.settings import ToySettings
from ui.core import public
from ui.models.import_plan import check_name
from ui.work.leftovers import TRAINING
from ui.work.roots import checkpoints_root

VARIABLE = public.TRAIN

#: Jobs whose files are kept; the oldest goes first.
MOST_JOBS = 6
_HOUSE = Path(__file__).resolve().parents[2]


class BusyError(Exception):
    """Raised if a job cannot start now; the message is one line."""


@dataclass(frozen=True, eq=False)
class RunningJob:
    """A job and its process."""

    name: str
    folder: JobFolder
    process: subprocess.Popen[bytes]

    def status(self) -> Status:
        """Return what it is doing; a process that was killed has failed."""
        # Polled before reading: a process writes its last status before it ends.
        ended = self.process.poll() is not None
        status = self.folder.status()
        if ended and status.live:
            full = self.process.returncode == DISK_FULL
            why = "the server's disk is full" if full else "the training process was ended"
            return Status("failed", status.update, why)
        return status


_LOCK = threading.Lock()
_JOBS: dict[str, RunningJob] = {}


def refusal() -> str | None:
    """Return why training is not allowed on this server, or None."""
    return public.job_refusal("Training in the app")


def find(name: str) -> RunningJob | None:
    """Return the job of this name."""
    return _JOBS.get(name)


def busy() -> str | None:
    """Return a sentence about the run in progress, or None."""
    for job in list(_JOBS.values()):
        status = job.status()
        if status.live:
            most = max(each.updates for each in job.folder.settings)
            return f"This server is training a model (update {status.update:,} of {most:,})."
    return None


def last_done() -> RunningJob | None:
    """Return the newest job that has run to its end."""
    done = (job for job in reversed(list(_JOBS.values())) if job.status().phase == "done")
    return next(done, None)


def begin(settings: list[ToySettings]) -> RunningJob:
    """Start a job. Raises `BusyError` if one is running or none is allowed."""
    why = refusal()
    if why is not None:
        raise BusyError(why)
    with _LOCK:
        why = busy()
        if why is not None:
            raise BusyError(f"{why} Yours can start when it ends.")
        while len(_JOBS) >= MOST_JOBS:
            old = _JOBS.pop(next(iter(_JOBS)))
            shutil.rmtree(old.folder.path, ignore_errors=True)
        name = secrets.token_urlsafe(9)
        try:
            folder = JobFolder.create(_place() / name, settings)
            job = _JOBS[name] = RunningJob(name, folder, _start(folder))
        except OSError as error:
            raise BusyError(f"The run cannot start: {error.strerror or error}.") from None
    return job


def keep(job: RunningJob, lane: int, name: str) -> None:
    """Copy a finished model among the checkpoints. Raises `CheckpointError`, one line."""
    made, root = job.folder.lane(lane) / KEPT, checkpoints_root()
    check_name(name)
    if not made.is_dir():
        raise CheckpointError("this model was not kept")
    try:
        root.mkdir(parents=True, exist_ok=True)
        stage = Path(tempfile.mkdtemp(prefix=own_prefix(STAGE), dir=root))
        try:
            put_in_place(Path(shutil.copytree(made, stage / name)), root / name)
        finally:
            shutil.rmtree(stage, ignore_errors=True)
    except OSError as error:
        raise CheckpointError(f"{name}: {error.strerror or error}") from None


def _start(folder: JobFolder) -> subprocess.Popen[bytes]:
    # One thread and a low priority: visitors' clicks come first.
    nice = ["nice", "-n", "10"] if shutil.which("nice") else []
    paths = os.pathsep.join([str(_HOUSE), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [*nice, sys.executable, "-m", "transformer.toys.job", str(folder.path), str(os.getpid())],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        cwd=folder.path,
    )


@functools.cache
def _place() -> Path:
    """Make the folder of this server's jobs, deleted when the server ends."""
    place = Path(tempfile.mkdtemp(prefix=own_prefix(TRAINING)))
    atexit.register(_end, place)
    return place


def _end(place: Path) -> None:
    for job in _JOBS.values():
        if job.process.poll() is None:
            job.process.terminate()
            job.process.wait()
    shutil.rmtree(place, ignore_errors=True)
