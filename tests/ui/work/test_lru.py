import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from figures.positions import encoding_heatmap
from tests.factories import make_trace
from tests.waiting import wait_until
from transformer.models.catalogue import ModelRef
from transformer.worker.job import Job, Scheduler, StoppedError
from ui.core.view import Request
from ui.work.lru import ENTRY_BYTES, Lru


def size_of(trace: object) -> int:
    arrays = sum(each.nbytes for each in vars(trace).values() if isinstance(each, np.ndarray))
    return arrays + sum(texts_in([*vars(trace).values()]).values())


def texts_in(value: object) -> dict[int, int]:
    if isinstance(value, tuple | list):
        return {name: size for each in value for name, size in texts_in(each).items()}
    return {id(value): sys.getsizeof(value)} if isinstance(value, str) else {}


def test_arrays_are_read_only_wherever_they_lie_and_counted_once() -> None:
    cache, trace, other = Lru(10**9), make_trace(), np.zeros(1000)
    table = np.zeros((40, 30), np.float32)
    figure = encoding_heatmap(table, "light")
    cache.put(1, {"trace": trace, "more": (other, [other, bytes(300), figure])})
    size = size_of(trace) + other.nbytes + sys.getsizeof(bytes(300)) + table.nbytes
    assert cache.nbytes == size + ENTRY_BYTES
    for array in (trace.cross, other):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 1


def test_the_bound_holds_and_the_least_recently_used_goes_first() -> None:
    size = size_of(make_trace()) + ENTRY_BYTES
    cache = Lru(3 * size)
    for key in (1, 1, 2, 3):
        cache.put(key, make_trace())
    assert cache.get(1) is not None  # now the most recently used
    cache.put(4, make_trace())
    assert cache.nbytes == 3 * size
    assert list(cache) == [3, 1, 4]
    cache.put(5, np.zeros(size))
    assert list(cache) == [5]
    cache.forget()
    assert (len(cache), cache.nbytes) == (0, 0)


def test_a_long_sentence_with_a_small_result_counts() -> None:
    cache = Lru(10**6)
    for number in range(100):
        sentence = f"{number}" + "\u200d" * 9_000
        cache.put(Request(ModelRef(Path("toy")), "cpu", sentence, 1, 0.6), 0.5)
    assert len(cache) < 10**6 / 18_000


@pytest.mark.parametrize("alone", [False, True])
def test_many_threads_make_one_result(alone: bool) -> None:
    cache, made = Lru(10**9, alone=alone), list[int]()
    jobs = [Job[object]() for _ in range(6)]

    def make() -> object:
        assert wait_until(lambda: sum(job.progress == (0, 0) for job in jobs) == 5)
        made.append(1)
        return object()

    for job in jobs:
        job.start(lambda _: cache.once("a", make))
    assert len({id(job.future.result(60)) for job in jobs}) == 1 and made == [1]
    assert cache._making == {}


def test_a_failure_is_not_kept_and_the_next_one_goes_through() -> None:
    cache = Lru(10**9)

    def fail() -> None:
        raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            cache.once("a", fail)
    assert cache._making == {}
    assert cache.once("a", lambda: 1) == 1


def test_one_that_waits_may_leave_and_gives_its_turn_up() -> None:
    cache, lane, computing, go_on = Lru(10**9), Scheduler(), threading.Event(), threading.Event()

    def make() -> int:
        computing.set()
        go_on.wait(60)
        return 1

    def wait(_: object) -> int:
        with lane.turn():
            return cache.once("a", make)

    first = Job[int]().start(lambda _: cache.once("a", make))
    assert computing.wait(60)
    second, third = Job[int]().start(wait), Job[int]().start(wait)
    assert wait_until(lambda: second.progress == third.progress == (0, 0))
    with lane.turn():
        second.stop()
    assert isinstance(second.future.exception(60), StoppedError)
    go_on.set()
    assert first.future.result(60) == third.future.result(60) == 1


def test_alone_one_result_is_made_at_a_time() -> None:
    cache, running = Lru(10**9, alone=True), threading.Lock()

    def make() -> bool:
        alone = running.acquire(blocking=False)
        running.release()
        return alone

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(lambda key: cache.once(key, make), range(40)))
