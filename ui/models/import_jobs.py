"""Background imports, one at a time, each complete or not at all.

An import outlives the page run that started it, and its name is taken for all sessions.
"""

from __future__ import annotations

import logging
import re
import threading
from contextlib import ExitStack
from typing import Literal

from transformer.errors import CheckpointError
from transformer.files.hub import HubModel, fetched
from transformer.importers.registry import FORMATS
from transformer.worker.job import Job, StoppedError
from transformer.worker.scheduler import Scheduler
from ui.models.import_plan import Plan, adding, check_name, check_room
from ui.work.roots import within_roots, without_root

log = logging.getLogger(__name__)

#: Folders in which an import works, in front of a file's name.
_HIDDEN = re.compile(r"(?:\.[^/\s:]+/)+")

#: Largest number of imports waiting for the running one.
MOST_WAITING = 4


class Import(Job[None]):
    """One import of a `plan`, whose current `step` is what `progress` counts."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan = plan
        self.step: Literal["waiting", "fetching", "reading"] = "waiting"

    def _run_plan(self) -> None:
        """Import in turn. Raises: `StoppedError`, or `CheckpointError` without server folders."""
        called = self.plan.called
        try:
            with _TURNS.turn(lambda ahead: self(ahead, 0)):
                self._import()
        except StoppedError:
            raise
        except CheckpointError as error:
            raise CheckpointError(_HIDDEN.sub("", without_root(str(error)))) from None
        except MemoryError:
            raise CheckpointError(f"{called}: not enough memory") from None
        except OSError as error:  # such as a full disk
            raise CheckpointError(f"{called}: {error.strerror or error}") from None
        except Exception:
            log.exception("the import of %s failed", called)
            raise CheckpointError(f"{called}: the import failed, see the log") from None
        finally:
            with _LOCK:
                del _RUNNING[self.plan.name]

    def _enter(self, step: Literal["fetching", "reading"]) -> None:
        self(0, 0)
        self.step = step

    def _import(self) -> None:
        plan = self.plan
        kind = FORMATS[plan.format]
        check_room(plan)
        with adding(plan.name) as stage, ExitStack() as stack:
            if isinstance(plan.source, HubModel):
                self._enter("fetching")
                folder = stack.enter_context(fetched(plan.source, stage, self))
            else:
                folder = within_roots(plan.source)
            self._enter("reading")
            kind.convert(folder, stage / plan.name, name=plan.called, report=self)
            self(1, 1)


_LOCK, _TURNS = threading.Lock(), Scheduler()
_RUNNING: dict[str, Import] = {}


def begin(plan: Plan) -> Import:
    """Start an import. Raises `CheckpointError`, one line, if its name is in use."""
    with _LOCK:
        check_name(plan.name)
        if plan.name in _RUNNING:
            raise CheckpointError(f"{plan.name} is already being imported; choose another name")
        if len(_RUNNING) > MOST_WAITING:
            raise CheckpointError("too many imports are waiting; try again in a while")
        job = _RUNNING[plan.name] = Import(plan)
    return job.start(lambda _: job._run_plan())
