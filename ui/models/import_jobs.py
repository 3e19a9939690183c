"""Background imports, one at a time, each complete or not at all.

An import outlives the page run that started it: its user may visit other pages, and its name is
taken for all sessions.
"""

from __future__ import annotations

import logging
import re
import shutil
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

from transformer.errors import CheckpointError
from transformer.files.hub import HubModel, fetched
from transformer.files.leftovers import STAGE, own_prefix, remove_stages
from transformer.importers.finish import put_in_place
from transformer.importers.registry import FORMATS
from ui.models.import_plan import Plan, check_name, check_room
from ui.work.roots import checkpoints_root, within_roots, without_root

log = logging.getLogger(__name__)

#: Folders in which an import works, in front of a file's name.
_HIDDEN = re.compile(r"(?:\.[^/\s:]+/)+")
#: Imports that may wait for the running one.
MOST_WAITING = 4

Phase = Literal["waiting", "fetching", "reading", "done", "stopped", "failed"]


class _StoppedError(Exception):
    """Raised inside an import to stop it."""


class Job:
    """One import.

    Attributes:
        plan: what is imported.
        phase: the current step.
        done, most: progress in that step; `most` is 0 if unknown.
        error: the reason of a failure, one line.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.phase: Phase = "waiting"
        self.done, self.most = 0, 0
        self.error = ""
        self._stop = threading.Event()
        self.thread = threading.Thread(target=self._run, name=f"import {plan.name}", daemon=True)

    @property
    def running(self) -> bool:
        """Whether the import is still running."""
        return self.phase in ("waiting", "fetching", "reading")

    def stop(self) -> None:
        """Ask the import to stop and leave nothing behind."""
        self._stop.set()

    def _report(self, done: int, most: int) -> None:
        if self._stop.is_set():
            raise _StoppedError
        self.done, self.most = done, most

    def _enter(self, phase: Phase) -> None:
        self._report(0, 0)
        self.phase = phase

    def _run(self) -> None:
        try:
            while not _TURN.acquire(timeout=0.1):
                self._report(0, 0)
            try:
                self._import()
            finally:
                _TURN.release()
            end: Phase = "done"
        except _StoppedError:
            end = "stopped"
        except CheckpointError as error:
            end, self.error = "failed", _HIDDEN.sub("", without_root(str(error)))
        except MemoryError:
            end, self.error = "failed", f"{self.plan.called}: not enough memory"
        except OSError as error:  # such as a full disk
            end, self.error = "failed", f"{self.plan.called}: {error.strerror or error}"
        except Exception:
            log.exception("the import of %s failed", self.plan.called)
            end, self.error = "failed", f"{self.plan.called}: the import failed, see the log"
        _forget(self)
        self.phase = end

    def _import(self) -> None:
        plan = self.plan
        kind = FORMATS[plan.format]
        check_room(plan)
        root = checkpoints_root()
        root.mkdir(parents=True, exist_ok=True)
        remove_stages(root, STAGE)
        stage = Path(tempfile.mkdtemp(prefix=own_prefix(STAGE), dir=root))
        try:
            with ExitStack() as stack:
                if isinstance(plan.source, HubModel):
                    self._enter("fetching")
                    folder = stack.enter_context(fetched(plan.source, stage, self._report))
                else:
                    folder = within_roots(plan.source)
                self._enter("reading")
                made = kind.convert(
                    folder, stage / plan.name, name=plan.called, report=self._report
                )
            self._report(1, 1)
            put_in_place(made, root / check_name(plan.name))
        finally:
            shutil.rmtree(stage, ignore_errors=True)


_LOCK = threading.Lock()
_TURN = threading.Lock()
_JOBS: dict[str, Job] = {}


def begin(plan: Plan) -> Job:
    """Start an import. Raises `CheckpointError`, one line, if its name is in use."""
    with _LOCK:
        check_name(plan.name)
        if plan.name in _JOBS:
            raise CheckpointError(f"{plan.name} is already being imported; choose another name")
        if len(_JOBS) > MOST_WAITING:
            raise CheckpointError("too many imports are waiting; try again in a while")
        job = _JOBS[plan.name] = Job(plan)
    job.thread.start()
    return job


def _forget(job: Job) -> None:
    with _LOCK:
        if _JOBS.get(job.plan.name) is job:
            del _JOBS[job.plan.name]
