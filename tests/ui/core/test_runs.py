"""Runs compute one after the other; one that waits lets others go on."""

from __future__ import annotations

import math
import threading

import pytest

from tests.ui.work.test_progress import Watched
from tests.waiting import wait_until
from ui.core.layout import section
from ui.core.runs import RUNS, fall_back, in_turn, offer_turn, paused
from ui.work.progress import attended


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never let a run in beside one that keeps its turn."""
    monkeypatch.setattr(RUNS, "_patience", math.inf)


def test_runs_do_not_compute_at_once() -> None:
    now, most = 0, 0

    def run() -> None:
        nonlocal now, most
        for _ in range(20):
            with in_turn(), in_turn():  # a fragment within its page
                now += 1
                most = max(most, now)
                threading.Event().wait(0.001)
                now -= 1

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (now, most) == (0, 1)


def test_a_run_that_waits_for_its_work_lets_another_go_on() -> None:
    went_on = threading.Event()

    def other() -> None:
        with in_turn():
            went_on.set()

    def make(_: object) -> str:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(60)
        return "made"

    with in_turn():
        assert attended(make, Watched()) == "made"
    assert went_on.is_set()


class Other:
    """A run in a thread of its own, which stands in the queue once it is made."""

    def __init__(self, name: str, order: list[str]) -> None:
        self._name, self._order = name, order
        self._thread = threading.Thread(target=self._run)
        waiting = RUNS.waiting
        self._thread.start()
        wait_until(lambda: RUNS.waiting > waiting)

    def _run(self) -> None:
        with in_turn():
            self._order.append(self._name)

    def end(self) -> None:
        self._thread.join(60)


def test_a_run_with_much_to_draw_lets_others_go_first_between_sections() -> None:
    order: list[str] = []
    with in_turn():
        first = Other("short", order)
        offer_turn()
        order.append("as short")  # came first, so it goes on
        fall_back()
        order.append("head")
        second = Other("next", order)
        section("Title", "Text")
        order.append("section")
    for each in (first, second):
        each.end()
    assert order == ["as short", "short", "head", "next", "section"]


def test_what_a_run_waited_for_is_drawn_after_those_that_came_meanwhile() -> None:
    order: list[str] = []
    holds = threading.Event()

    def hold() -> None:
        with RUNS.taken(pytest.fail):
            holds.set()
            wait_until(lambda: RUNS.waiting == 3)

    holder = threading.Thread(target=hold)
    with in_turn():
        with paused():
            holder.start()
            assert holds.wait(60)
            others = [Other(name, order) for name in ("one", "two")]
        order.append("drawn")
    for other in others:
        other.end()
    holder.join(60)
    assert order == ["one", "two", "drawn"]


def test_what_a_callback_asks_for_is_drawn_after_those_that_came_meanwhile() -> None:
    order: list[str] = []

    def asks() -> None:
        fall_back()
        with in_turn():
            order.append("asked")
        with in_turn():  # the thread's next run, which draws again what stands
            order.append("again")

    with in_turn():
        long = threading.Thread(target=asks)
        long.start()
        wait_until(lambda: RUNS.waiting == 1)
        short = Other("short", order)
    long.join()
    short.end()
    assert order == ["short", "asked", "again"]


def test_outside_a_run_there_is_nothing_to_offer() -> None:
    offer_turn()


def test_a_run_that_ends_with_an_exception_lets_others_go_on() -> None:
    with pytest.raises(ZeroDivisionError), in_turn(), paused():
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError), in_turn():
        raise ZeroDivisionError
    with RUNS.taken(pytest.fail):
        pass
    with paused():  # outside of any run, nothing to let go
        pass
