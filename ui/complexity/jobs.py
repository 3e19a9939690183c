"""Measurements on this server, one at a time; the last result serves all sessions.

They continue when their page is left, in a separate process: in the server, a measurement would
change the threads of all models.
"""

from transformer.evaluation.complexity_records import Measurement
from transformer.worker.job import Job, Register
from transformer.worker.process import start_alone

#: Measurements by number.
JOBS: Register[int, Job[Measurement]] = Register(kept=10)


def begin(quick: bool = False) -> Job[Measurement] | None:
    """Start measuring, if `quick` small shapes only. Returns: None if a measurement is running."""
    # Here, as it imports PyTorch.
    from transformer.evaluation.complexity import QUICK, Plan, measure

    number = max(JOBS.all(), default=0) + 1
    return JOBS.begin(number, lambda: start_alone(measure, QUICK if quick else Plan()))


def current() -> Job[Measurement] | None:
    """Return the last job of this server, running or not."""
    return next(reversed(JOBS.all().values()), None)


def last_measurement() -> Measurement | None:
    """Return this server's last measurement that was not made under load, or None."""
    jobs = reversed(JOBS.all().values())
    results = (job.future.result() for job in jobs if job.phase == "done")
    return next((result for result in results if not result.refusal), None)
