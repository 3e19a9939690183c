import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.waiting import wait_until
from transformer.worker import job
from transformer.worker.job import Scheduler, Turn, paused
from transformer.worker.tracing import SENTENCES, trace_in_turn


@pytest.fixture(autouse=True, scope="module")
def _soon() -> Iterator[None]:
    """Make waiting work poll often."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "_POLL", 0.01)
        yield


@pytest.fixture
def spend(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Replace processor time with a clock that only advances by what a thread spends."""
    spent = threading.local()
    monkeypatch.setattr(job.time, "thread_time", lambda: getattr(spent, "seconds", 0.0))
    return lambda seconds: setattr(spent, "seconds", getattr(spent, "seconds", 0.0) + seconds)


def leave(*_: int) -> None:
    raise InterruptedError


class Others:
    """Threads that queue for a turn and record when they run."""

    def __init__(self, schedule: Scheduler) -> None:
        self.order: list[str] = []
        self.ahead: dict[str, int] = {}
        self.may_end = threading.Event()
        self.may_end.set()
        self._schedule, self._threads = schedule, list[threading.Thread]()

    def queue(self, name: str) -> None:
        """Wait until the thread is in the queue."""
        waiting = self._schedule.waiting
        self._threads.append(threading.Thread(target=self._run, args=(name,)))
        self._threads[-1].start()
        assert wait_until(lambda: self._schedule.waiting > waiting or name in self.order)
        wait_until(lambda: name in self.ahead or name in self.order)

    def _run(self, name: str) -> None:
        with self._schedule.turn(lambda ahead: self.ahead.setdefault(name, ahead)):
            self.order.append(name)
            self.may_end.wait(60)

    def join(self) -> list[str]:
        for thread in self._threads:
            thread.join(60)
        return self.order


def crowd(**options: float) -> tuple[Scheduler, Others]:
    schedule = Scheduler(**options)
    return schedule, Others(schedule)


def test_work_waits_in_order_of_arrival_and_knows_its_place() -> None:
    schedule, others = crowd()
    with schedule.turn():
        for name in "abc":
            others.queue(name)
    assert others.join() == [*"abc"] and others.ahead == {"a": 0, "b": 1, "c": 2}


def test_long_work_yields_to_short_work_at_its_next_step(spend: Callable[[float], None]) -> None:
    schedule, others = crowd()
    with schedule.turn() as turn:
        others.queue("first")
        spend(0.15)
        schedule.offer(turn)  # still short
        others.order.append("short")
        spend(5.0)
        schedule.offer(turn)
        others.order.append("long")
    assert others.join() == ["short", "first", "long"]


def test_a_long_sentence_begins_after_short_ones() -> None:
    order: list[int] = []

    def trace(sentence: str, **_: object) -> Any:
        order.append(len(sentence))
        return SimpleNamespace(search=None)

    model: Any = SimpleNamespace(trace=trace)
    with ThreadPoolExecutor(2) as threads, SENTENCES.turn():
        for number, length in enumerate((9_000, 9), 1):
            threads.submit(trace_in_turn, model, "x" * length, {})
            assert wait_until(lambda number=number: SENTENCES.waiting == number)
    assert order == [9, 9_000]


def test_work_that_does_not_notice_its_turn_in_time_keeps_it() -> None:
    schedule, looks, goes_on, ran = Scheduler(patience=0.0), *(threading.Event() for _ in "abc")

    def busy(_: int) -> None:
        looks.set()
        goes_on.wait(60)

    def work() -> None:
        with schedule.turn(busy):
            ran.set()

    with schedule.turn():  # held until the end
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        assert looks.wait(60)  # its turn came while it was busy, and another's comes next
        with schedule.turn():
            goes_on.set()
        assert ran.wait(10)


def test_long_works_alternate(spend: Callable[[float], None]) -> None:
    """Computing lowers the rank, so the work that computed less runs next."""
    turns = [Turn(Scheduler(), leave) for _ in range(2)]
    for turn in turns:
        turn.start_clock()
    order = []
    for _ in range(10):
        number = min((0, 1), key=lambda index: turns[index].rank)
        order.append(number)
        turns[number].start_clock()
        spend(0.5)
        turns[number].stop_clock()
    assert order.count(0) == 5 and order[2:] in ([0, 1] * 4, [1, 0] * 4)


def test_work_that_leaves_or_fails_frees_its_place_once(spend: Callable[[float], None]) -> None:
    schedule, others = crowd()

    def two_at_once() -> None:
        with schedule.turn(leave):
            pytest.fail("two at once")

    with schedule.turn(leave) as turn:
        with ThreadPoolExecutor(1) as thread:
            for _ in range(2):
                assert isinstance(thread.submit(two_at_once).exception(), InterruptedError)
        spend(10.0)
        others.may_end.clear()
        others.queue("short")
        with pytest.raises(InterruptedError):
            schedule.offer(turn)  # has to wait now, and leaves
        others.may_end.set()
    assert others.join() == ["short"]
    with pytest.raises(ZeroDivisionError), schedule.turn(leave):
        raise ZeroDivisionError
    with schedule.turn(pytest.fail):
        assert schedule.waiting == 0


@settings(max_examples=20)
@given(works=st.integers(1, 8), steps=st.integers(0, 4))
def test_one_computes_at_a_time(works: int, steps: int) -> None:
    schedule, running = Scheduler(), threading.Lock()
    alone: list[bool] = []

    def run() -> None:
        with schedule.turn() as turn:
            for _ in range(steps):
                alone.append(running.acquire(blocking=False))
                running.release()
                schedule.offer(turn)

    with ThreadPoolExecutor(works) as threads:
        for _ in range(works):
            threads.submit(run)
    assert len(alone) == works * steps and all(alone)
    with schedule.turn(pytest.fail):
        pass


def test_paused_work_and_work_that_runs_for_too_long_let_others_run() -> None:
    schedule, others = crowd()
    with schedule.turn():
        others.queue("other")
        with paused():
            others.join()
        others.order.append("this")
        with pytest.raises(ZeroDivisionError), paused():
            raise ZeroDivisionError
        with schedule.turn(pytest.fail):  # the place was given up
            pass
    assert others.order == ["other", "this"]
    schedule, others = crowd(patience=0.0)
    with schedule.turn():
        others.queue("other")
        assert others.join() == ["other"]
    with schedule.turn(pytest.fail):  # freed once, not twice
        assert schedule.waiting == 0


def test_a_thread_has_one_turn() -> None:
    outer, inner = Scheduler(), Scheduler()
    others = Others(outer)
    with outer.turn() as turn:
        with outer.turn() as again:  # no effect
            assert again is turn
        others.queue("other")
        with inner.turn():
            others.join()
            assert inner.waiting == 0
        assert turn.runs.is_set()
    with outer.turn(pytest.fail), inner.turn(pytest.fail):
        pass
