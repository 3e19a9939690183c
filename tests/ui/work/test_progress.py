"""Progress of background work."""

from __future__ import annotations

import threading

import pytest

from transformer.types import Report
from transformer.worker.job import UNKNOWN, StoppedError
from ui.work.progress import Progress, attended

PATIENCE = 60.0


class Watched(Progress):
    """Records its calls; `leave_at` ends the wait there, as Streamlit ends a run."""

    def __init__(self, leave_at: tuple[int, int] | None = None) -> None:
        super().__init__("work")
        self.seen: list[tuple[int, int]] = []
        self.leave_at = leave_at
        self.news = threading.Condition()

    def __call__(self, step: int, most: int) -> None:
        with self.news:
            self.seen.append((step, most))
            self.news.notify_all()
        if (step, most) == self.leave_at:
            raise InterruptedError


def test_it_is_made_elsewhere_while_progress_is_drawn_here() -> None:
    drawn, here = Watched(), threading.current_thread()

    def make(report: Report) -> threading.Thread:
        for step in range(3):
            report(step, 3)
            with drawn.news:
                drawn.news.wait_for(lambda at=(step, 3): at in drawn.seen, PATIENCE)
        return threading.current_thread()

    assert attended(make, drawn) is not here
    assert [at for at in dict.fromkeys(drawn.seen) if at != UNKNOWN] == [(0, 3), (1, 3), (2, 3)]


def test_the_run_may_leave_and_the_work_ends_at_its_next_report() -> None:
    left, ended = threading.Event(), threading.Event()

    def make(report: Report) -> None:
        report(1, 2)
        left.wait(PATIENCE)
        try:
            report(2, 2)
        except StoppedError:
            ended.set()
            raise

    with pytest.raises(InterruptedError):
        attended(make, Watched(leave_at=(1, 2)))
    left.set()
    assert ended.wait(PATIENCE)
