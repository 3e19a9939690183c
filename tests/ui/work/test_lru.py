"""A cache bounded in bytes, in which one thread computes what others wait for."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from figures.positions import encoding_heatmap
from tests.factories import make_trace
from ui.work.lru import ENTRY_BYTES, Lru


def size_of(trace: object) -> int:
    return sum(value.nbytes for value in vars(trace).values() if isinstance(value, np.ndarray))


def test_arrays_are_read_only_wherever_they_lie_and_counted_once() -> None:
    cache, trace, other = Lru(10**9), make_trace(), np.zeros(1000)
    table = np.zeros((40, 30), np.float32)
    figure = encoding_heatmap(table, "light")
    cache.put("a", {"trace": trace, "more": (other, [other, bytes(300), figure])})
    size = size_of(trace) + other.nbytes + 300 + table.nbytes
    assert cache.nbytes == size + ENTRY_BYTES
    for array in (trace.cross, other):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 1


def test_the_bound_holds_and_the_least_recently_used_goes_first() -> None:
    size = size_of(make_trace()) + ENTRY_BYTES
    cache = Lru(3 * size)
    for key in "abc":
        cache.put(key, make_trace())
    assert cache.get("a") is not None  # now the most recently used
    cache.put("d", make_trace())
    assert cache.nbytes == 3 * size
    assert list(cache) == ["c", "a", "d"]
    cache.put("large", np.zeros(size))
    assert list(cache) == ["large"]


def test_replacing_a_result_counts_it_once() -> None:
    cache = Lru(10**9)
    cache.put("a", make_trace(S=9))
    cache.put("a", make_trace(S=5))
    assert len(cache) == 1
    assert cache.nbytes == size_of(make_trace(S=5)) + ENTRY_BYTES
    cache.clear()
    assert (len(cache), cache.nbytes) == (0, 0)


def test_many_threads_make_one_result() -> None:
    cache, made, found = Lru(10**9), [], []
    waiting, all_wait = set[int](), threading.Event()

    def wait() -> None:
        waiting.add(threading.get_ident())
        if len(waiting) == 5:
            all_wait.set()

    def make() -> object:
        assert all_wait.wait(60)
        made.append(1)
        return object()

    threads = [
        threading.Thread(target=lambda: found.append(cache.once("a", make, wait))) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1]
    assert len(found) == 6 and len(set(found)) == 1
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


def test_a_thread_that_waits_may_leave() -> None:
    cache, computing, go_on = Lru(10**9), threading.Event(), threading.Event()

    def make() -> int:
        computing.set()
        go_on.wait(60)
        return 1

    def leave() -> None:
        raise InterruptedError

    thread = threading.Thread(target=cache.once, args=("a", make))
    thread.start()
    assert computing.wait(60)
    with pytest.raises(InterruptedError):
        cache.once("a", make, leave)
    go_on.set()
    thread.join()
    assert cache.once("a", make, leave) == 1
