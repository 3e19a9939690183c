"""Progress of background work."""

import threading

from tests.waiting import wait_until
from transformer.types import Report
from transformer.worker.job import UNKNOWN
from ui.work.progress import Progress, attended


class Watched(Progress):
    """Records its calls."""

    def __init__(self) -> None:
        super().__init__("work")
        self.seen: list[tuple[int, int]] = []

    def __call__(self, step: int, most: int) -> None:
        self.seen.append((step, most))


def test_it_is_made_elsewhere_while_progress_is_drawn_here() -> None:
    drawn, here = Watched(), threading.current_thread()

    def make(report: Report) -> threading.Thread:
        for step in range(3):
            report(step, 3)
            assert wait_until(lambda at=(step, 3): at in drawn.seen)
        return threading.current_thread()

    assert attended(make, drawn) is not here
    assert [at for at in dict.fromkeys(drawn.seen) if at != UNKNOWN] == [(0, 3), (1, 3), (2, 3)]
