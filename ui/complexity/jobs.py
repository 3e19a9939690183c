"""Measuring layers on this server, one measurement at a time.

A measurement outlives the page run that started it, and its result is kept for all sessions until
the server ends. It runs in a process: in the server it would change the threads of all models.
"""

from __future__ import annotations

import threading

from transformer.experiments.records import Measurement
from transformer.worker.job import Job
from transformer.worker.process import start_alone
from ui.core import public

_LOCK = threading.Lock()
_jobs: list[Job[Measurement]] = []


def refusal() -> str | None:
    """Return why measuring is not allowed on this server, or None."""
    return public.job_refusal("Measuring in the app")


def begin(quick: bool = False) -> Job[Measurement]:
    """Start measuring, if `quick` small shapes only; return the running job if there is one."""
    # Here, as it imports PyTorch.
    from transformer.experiments.complexity import QUICK, Plan, measure

    with _LOCK:
        job = current()
        if job is None or not job.running:
            job = start_alone(measure, QUICK if quick else Plan())
            _jobs[:] = [*(each for each in _jobs if each.phase == "done"), job][-2:]
        return job


def current() -> Job[Measurement] | None:
    """Return the last job of this server, running or not."""
    return _jobs[-1] if _jobs else None


def measured() -> Measurement | None:
    """Return this server's last measurement, or None."""
    done = (each.future.result() for each in reversed(_jobs) if each.phase == "done")
    return next(done, None)
