"""Runs compute one after the other; one that waits lets others go on."""

from __future__ import annotations

import math
import threading

import pytest

from tests.ui.work.test_progress import Watched
from tests.waiting import wait_until
from ui.core import runs
from ui.core.layout import section
from ui.core.runs import RUNS, fall_back, in_turn, offer_turn, paused
from ui.work.progress import attended


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never let a run in beside one that keeps its turn."""
    monkeypatch.setattr(RUNS, "_patience", math.inf)


def test_a_fragment_runs_in_the_turn_of_its_page() -> None:
    with in_turn(), in_turn():
        assert RUNS.waiting == 0


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


def test_a_section_yields_to_a_run_of_higher_priority() -> None:
    order: list[str] = []

    def short() -> None:
        with in_turn():
            order.append("short")

    thread = threading.Thread(target=short)
    with in_turn():
        thread.start()
        wait_until(lambda: RUNS.waiting == 1)
        section("Title", "Text")
        order.append("section")
        runs._turn()._seconds = 100.0  # computed for long
        section("Title", "Text")
        order.append("next section")
    thread.join()
    assert order == ["section", "short", "next section"]


def test_a_run_with_much_to_draw_falls_back() -> None:
    order: list[str] = []

    def run(name: str, *, much: bool = False) -> threading.Thread:
        def body() -> None:
            if much:
                fall_back()  # in a callback, for the run that follows
            with in_turn():
                order.append(name)

        waiting = RUNS.waiting
        thread = threading.Thread(target=body)
        thread.start()
        wait_until(lambda: RUNS.waiting > waiting)
        return thread

    with in_turn():
        threads = [run("much", much=True), run("little")]
        fall_back()
        order.append("this")
    for thread in threads:
        thread.join(60)
    assert order == ["little", "much", "this"] or order == ["little", "this", "much"]


def test_outside_a_run_there_is_nothing_to_offer() -> None:
    offer_turn()


def test_a_run_that_ends_with_an_exception_lets_others_go_on() -> None:
    with pytest.raises(ZeroDivisionError), in_turn(), paused():
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError), in_turn():
        raise ZeroDivisionError
    with RUNS.turn(pytest.fail):
        pass
    with paused():  # outside of any run, nothing to let go
        pass
