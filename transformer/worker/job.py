"""Background work with progress, requests and an outcome."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, Generic, Literal, Self, TypeVar

from transformer.types import Report

T = TypeVar("T")

Phase = Literal["running", "done", "stopped", "failed"]

#: Progress before the first report. A maximum below 0 is unknown; 0 means waiting for other work,
#: with `step` jobs ahead.
UNKNOWN = (0, -1)

#: Request that ends the work at its next report.
STOP = "stop"

#: Seconds between two checks of a running job.
EVERY = 0.1


class StoppedError(Exception):
    """Raised by a report of a job that was asked to stop."""


class Job(Generic[T]):
    """Work in the background. The work is called with its job, which it calls to report progress.

    `start` runs it in a thread; `transformer.worker.process` runs it in a process.

    Attributes:
        future: the outcome.
        progress: the last (step, maximum) reported.
        request: the latest request to the work, None without one.
    """

    def __init__(self, forward: Callable[[Any], None] | None = None) -> None:
        """Create a job. Args: forward: called with each request, if the work is elsewhere."""
        self.future: Future[T] = Future()
        self._forward = forward
        self.progress: tuple[int, int] = UNKNOWN
        self.request: Any = None

    def __call__(self, step: int, most: int) -> None:
        """Report progress. Raises: `StoppedError` if the job was asked to stop."""
        if self.request == STOP:
            raise StoppedError
        self.progress = step, most

    def ask(self, request: Any) -> None:
        """Replace the request that the work reads."""
        self.request = request
        if self._forward is not None:
            self._forward(request)

    def stop(self) -> None:
        """End the work at its next report."""
        self.ask(STOP)

    def start(self, work: Callable[[Job[T]], T]) -> Self:
        """Begin the work in a thread of its own; return the job."""
        threading.Thread(target=self._run, args=(work,), name="headlight-job", daemon=True).start()
        return self

    def _run(self, work: Callable[[Job[T]], T]) -> None:
        try:
            result = work(self)
        except BaseException as error:  # noqa: BLE001 - raised where the outcome is read
            self.future.set_exception(error)
        else:
            self.future.set_result(result)

    @property
    def phase(self) -> Phase:
        """State of the work."""
        if not self.future.done():
            return "running"
        error = self.future.exception()
        if error is None:
            return "done"
        return "stopped" if isinstance(error, StoppedError) else "failed"

    @property
    def running(self) -> bool:
        """True while the work runs or waits."""
        return self.phase == "running"

    @property
    def error(self) -> str:
        """Cause of a failure in one line, "" without one."""
        if self.phase != "failed":
            return ""
        error = self.future.exception()
        text = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return str(text).splitlines()[0]

    def ended(self, timeout: float = EVERY) -> bool:
        """Wait up to `timeout` seconds; return whether the work has ended."""
        return bool(wait([self.future], timeout).done)

    def result(self, waiting: Report) -> T:
        """Return or raise the outcome.

        Args: waiting: called several times a second with the progress; if it raises, the work is
            stopped.
        """
        try:
            while not self.ended():
                waiting(*self.progress)
        except BaseException:
            self.stop()
            raise
        return self.future.result()
