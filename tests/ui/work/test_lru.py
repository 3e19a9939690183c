"""A cache bounded in bytes, in which one thread computes what others wait for."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from figures.positions import encoding_heatmap
from tests.factories import make_trace
from transformer.models.catalogue import ModelRef
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


def test_many_threads_make_one_result() -> None:
    cache, made = Lru(10**9), list[int]()
    waiting, all_wait = set[int](), threading.Event()

    def wait() -> None:
        waiting.add(threading.get_ident())
        if len(waiting) == 5:
            all_wait.set()

    def make() -> object:
        assert all_wait.wait(60)
        made.append(1)
        return object()

    with ThreadPoolExecutor(6) as threads:
        found = [threads.submit(cache.once, "a", make, wait) for _ in range(6)]
    assert made == [1] and len({each.result() for each in found}) == 1
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

    with ThreadPoolExecutor(1) as threads:
        threads.submit(cache.once, "a", make)
        assert computing.wait(60)
        with pytest.raises(InterruptedError):
            cache.once("a", make, leave)
        go_on.set()
    assert cache.once("a", make, leave) == 1
