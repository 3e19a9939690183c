"""Progress of background work."""

from __future__ import annotations

import threading

import pytest

from tests.waiting import wait_until
from transformer.types import Report
from transformer.worker.job import UNKNOWN, StoppedError
from ui.work.progress import Progress, attended


class Watched(Progress):
    """Records its calls; `leave_at` ends the wait there, as Streamlit ends a run."""

    def __init__(self, leave_at: tuple[int, int] | None = None) -> None:
        super().__init__("work")
        self.seen: list[tuple[int, int]] = []
        self.leave_at = leave_at

    def __call__(self, step: int, most: int) -> None:
        self.seen.append((step, most))
        if (step, most) == self.leave_at:
            raise InterruptedError


def test_it_is_made_elsewhere_while_progress_is_drawn_here() -> None:
    drawn, here = Watched(), threading.current_thread()

    def make(report: Report) -> threading.Thread:
        for step in range(3):
            report(step, 3)
            assert wait_until(lambda at=(step, 3): at in drawn.seen)
        return threading.current_thread()

    assert attended(make, drawn) is not here
    assert [at for at in dict.fromkeys(drawn.seen) if at != UNKNOWN] == [(0, 3), (1, 3), (2, 3)]


def test_the_run_may_leave_and_the_work_ends_at_its_next_report() -> None:
    left, ended = threading.Event(), threading.Event()

    def make(report: Report) -> None:
        report(1, 2)
        left.wait(60)
        with pytest.raises(StoppedError):
            report(2, 2)
        ended.set()

    with pytest.raises(InterruptedError):
        attended(make, Watched(leave_at=(1, 2)))
    left.set()
    assert ended.wait(60)
