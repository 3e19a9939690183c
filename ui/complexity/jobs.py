"""Measurements on this server, one at a time, whose last result serves all sessions.

They outlive the page run that started them, and run in a process: in the server one would change
the threads of all models.
"""

from __future__ import annotations

import threading

from transformer.evaluation.complexity_records import Measurement
from transformer.worker.job import Job
from transformer.worker.process import start_alone

_LOCK = threading.Lock()
_jobs: list[Job[Measurement]] = []


def begin(quick: bool = False) -> Job[Measurement] | None:
    """Start measuring, if `quick` small shapes only. Returns: None if a measurement is running."""
    # Here, as it imports PyTorch.
    from transformer.evaluation.complexity import QUICK, Plan, measure

    with _LOCK:
        running = current()
        if running is not None and running.running:
            return None
        job = start_alone(measure, QUICK if quick else Plan())
        _jobs[:] = [*_stored(), job][-2:]
        return job


def current() -> Job[Measurement] | None:
    """Return the last job of this server, running or not."""
    return _jobs[-1] if _jobs else None


def last_measurement() -> Measurement | None:
    """Return this server's last measurement that was not made under load, or None."""
    return next((each.future.result() for each in reversed(_stored())), None)


def _stored() -> list[Job[Measurement]]:
    return [job for job in _jobs if job.phase == "done" and not job.future.result().refusal]
