"""Order of work: short first, then by arrival; leaving work frees its place once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.waiting import wait_until
from transformer.worker import scheduler
from transformer.worker.scheduler import Scheduler


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Processor time that stands, but for what the test adds to a thread's own."""
    spent = threading.local()
    monkeypatch.setattr(scheduler.time, "thread_time", lambda: getattr(spent, "seconds", 0.0))

    def spend(seconds: float) -> None:
        spent.seconds = getattr(spent, "seconds", 0.0) + seconds

    return spend


class Work:
    """A thread that takes a turn, computes step by step as it is told, and says what it does."""

    def __init__(self, schedule: Scheduler, name: str, said: list[str], clock: Callable) -> None:
        self.name, self.said, self._clock = name, said, clock
        self.before: list[int] = []
        self._go = threading.Semaphore(0)
        self._seconds: list[float] = []
        self.thread = threading.Thread(target=self._run, args=(schedule,), daemon=True)
        self.thread.start()

    def _run(self, schedule: Scheduler) -> None:
        with schedule.turn(self.before.append) as turn:
            while True:
                self.said.append(self.name)
                self._go.acquire()
                seconds = self._seconds.pop(0)
                if not seconds:
                    break
                self._clock(seconds)
                turn.offer()

    def step(self, seconds: float) -> None:
        """Compute for some seconds and offer the turn; 0 ends the work."""
        self._seconds.append(seconds)
        self._go.release()


def test_work_waits_in_the_order_of_arrival(clock: Callable[[float], None]) -> None:
    schedule, said = Scheduler(), list[str]()
    works = []
    for name in "abc":
        works.append(Work(schedule, name, said, clock))
        wait_until(lambda: bool(said) and (len(works) == 1 or bool(works[-1].before)))
    assert [work.before[-1] for work in works[1:]] == [0, 1]
    for number, work in enumerate(works, 1):
        wait_until(lambda: len(said) == number)  # noqa: B023 - called at once
        assert said == list("abc")[:number]
        work.step(0)
    for work in works:
        work.thread.join(60)


def test_long_work_lets_short_work_go_first_at_its_next_step(
    clock: Callable[[float], None],
) -> None:
    schedule, said = Scheduler(), list[str]()
    long = Work(schedule, "long", said, clock)
    wait_until(lambda: said == ["long"])
    long.step(5.0)  # nobody waits, so it goes on
    wait_until(lambda: said == ["long"] * 2)
    short = Work(schedule, "short", said, clock)
    wait_until(lambda: bool(short.before))
    assert said[-1] == "long"
    long.step(0.01)
    wait_until(lambda: said[-1] == "short")
    short.step(0.05)  # short as yet: it keeps its turn
    wait_until(lambda: said[-2:] == ["short"] * 2)
    short.step(0)
    wait_until(lambda: said[-1] == "long")
    long.step(0)
    for work in (long, short):
        work.thread.join(60)


def test_long_ones_take_turns(clock: Callable[[float], None]) -> None:
    schedule, said = Scheduler(), list[str]()
    works = {"a": Work(schedule, "a", said, clock)}
    wait_until(lambda: said == ["a"])
    works["b"] = Work(schedule, "b", said, clock)
    wait_until(lambda: bool(works["b"].before))
    while len(said) < 14:
        steps = len(said)
        works[said[-1]].step(0.5)
        wait_until(lambda: len(said) > steps)  # noqa: B023 - called at once
    assert abs(said.count("a") - said.count("b")) <= 2
    for name in (said[-1], {"a": "b", "b": "a"}[said[-1]]):
        wait_until(lambda: said[-1] == name)  # noqa: B023 - called at once
        works[name].step(0)
        works[name].thread.join(60)


def test_work_that_leaves_while_it_waits_gives_nothing_twice() -> None:
    class LeaveError(Exception):
        pass

    def leave(_: int) -> None:
        raise LeaveError

    schedule = Scheduler()
    with schedule.turn(leave):
        with pytest.raises(LeaveError), schedule.turn(leave):
            raise AssertionError("two at once")
        with pytest.raises(LeaveError), schedule.turn(leave):
            raise AssertionError("two at once")
    with schedule.turn(leave), pytest.raises(LeaveError), schedule.turn(leave):
        raise AssertionError("two at once")


def test_work_that_fails_or_leaves_at_an_offer_frees_its_place(
    clock: Callable[[float], None],
) -> None:
    class LeaveError(Exception):
        pass

    def leave(_: int) -> None:
        raise LeaveError

    schedule, said = Scheduler(), list[str]()
    with ExitStack() as stack:
        turn = stack.enter_context(schedule.turn(leave))
        clock(10.0)
        short = Work(schedule, "short", said, clock)
        wait_until(lambda: bool(short.before))
        with pytest.raises(LeaveError):
            turn.offer()  # has to wait now, and leaves
    wait_until(lambda: said == ["short"])
    short.step(0)
    short.thread.join(60)
    with pytest.raises(ZeroDivisionError), schedule.turn(leave):
        raise ZeroDivisionError
    with schedule.turn(leave):
        pass


@given(works=st.integers(1, 8), steps=st.integers(0, 4))
def test_one_computes_at_a_time(works: int, steps: int) -> None:
    schedule, running = Scheduler(), threading.Lock()

    def run() -> None:
        with schedule.turn() as turn:
            for _ in range(steps):
                assert running.acquire(blocking=False)
                running.release()
                turn.offer()

    threads = [threading.Thread(target=run) for _ in range(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    with schedule.turn(pytest.fail):  # the place is free again
        pass


def test_paused_work_lets_others_compute_and_waits_for_them() -> None:
    schedule, said = Scheduler(), list[str]()
    inside, end, waits = threading.Event(), threading.Event(), threading.Event()

    def other() -> None:
        with schedule.turn(lambda _: None):
            said.append("other")
            inside.set()
            end.wait()
            said.append("other ends")

    thread = threading.Thread(target=other)
    with schedule.turn(lambda _: waits.set()) as turn:
        thread.start()
        with turn.paused():
            assert inside.wait(60)
            threading.Thread(target=lambda: (waits.wait(), end.set())).start()
        said.append("this goes on")
    thread.join(60)
    assert said == ["other", "other ends", "this goes on"]


def test_work_that_fails_while_paused_goes_on_without_a_place() -> None:
    schedule = Scheduler()
    with schedule.turn(pytest.fail) as turn:
        with pytest.raises(ZeroDivisionError), turn.paused():
            raise ZeroDivisionError
        with schedule.turn(pytest.fail):
            pass
        with turn.paused():  # and has one again after it
            pass
        assert turn.runs.is_set()


def test_a_place_kept_too_long_goes_to_work_that_waits() -> None:
    schedule = Scheduler(patience=0.0)
    with schedule.turn(lambda _: None) as turn:
        done = threading.Event()

        def other() -> None:
            with schedule.turn(lambda _: None):
                done.set()

        thread = threading.Thread(target=other)
        thread.start()
        assert done.wait(60)
        thread.join(60)
        assert not turn.runs.is_set()
    with schedule.turn(pytest.fail):  # given back once, not twice
        assert schedule.waiting == 0
