"""How long a page takes to answer, held against a trivial page in the same browser.

Both pages are asked in turn, and medians are compared: what else the machine does slows both.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

#: Runs in every page that is measured, before anything else.
WATCH = Path(__file__).with_name("pace.js").read_text("utf-8")

#: Times each page is asked in one measurement, and how often a measurement may be repeated.
N_TIMES = 7
N_TRIES = 3

#: Milliseconds that a trivial page takes to answer on an idle machine of two cores.
TRIVIAL_MS = 118


def answer(page: Page, act: Callable[[], None], ready: str, *args: Any) -> float:
    """Milliseconds from the click or key of `act` until `ready` of pace.js holds on screen."""
    page.bring_to_front()
    page.evaluate("([ready, args]) => pace.arm(ready, ...args)", [ready, args])
    act()
    page.wait_for_function("() => pace.took !== null", polling=20)
    return float(page.evaluate("() => pace.took"))


class Trivial:
    """The trivial page."""

    def __init__(self, page: Page, address: str) -> None:
        self._page = page
        page.goto(address)
        self._button = page.get_by_role("button", name="Again")
        self._button.wait_for()
        self._clicks = 0
        self.ask()

    def ask(self) -> float:
        """Milliseconds until it has counted one more click."""
        self._clicks += 1
        return answer(self._page, self._button.click, "counted", self._clicks)


def compare(trivial: Trivial, ask: Callable[[int], float], limit: float) -> float:
    """How many times as long as the trivial page another one takes.

    Args:
        ask: called with 0, 1, ...: milliseconds of one answer.
        limit: a ratio below this ends the measurement; others are measured again.

    Returns: the smallest ratio of medians that was measured; where none is below the limit, the
    ratio of the quickest answers if that is smaller: a busy machine only ever adds to a time.
    """
    best, asked = float("inf"), 0
    quickest = [float("inf"), float("inf")]
    ask(asked)
    for _ in range(N_TRIES):
        theirs: list[float] = []
        ours: list[float] = []
        for _ in range(N_TIMES):
            asked += 1
            theirs.append(trivial.ask())
            ours.append(ask(asked))
        best = min(best, statistics.median(ours) / statistics.median(theirs))
        quickest = [min(quickest[0], *ours), min(quickest[1], *theirs)]
        if best < limit:
            return best
    return min(best, quickest[0] / quickest[1])
