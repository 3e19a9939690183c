from __future__ import annotations

import dataclasses
import threading
import time

import numpy as np
import pytest

from tests.factories import make_trace
from transformer.search.records import SearchRecord, SearchStep
from ui.work.traces import TraceCache, TraceKey, hold


def key(sentence: str = "a", **changes: object) -> TraceKey:
    return dataclasses.replace(TraceKey("path", "mark", "cpu", sentence, 4, 0.6), **changes)  # type: ignore[arg-type]


def size_of(trace: object) -> int:
    return sum(value.nbytes for value in vars(trace).values() if isinstance(value, np.ndarray))


def nothing() -> None:
    pass


def test_a_trace_is_found_under_its_own_key_only() -> None:
    cache, trace = TraceCache(10**9), make_trace()
    cache.put(key(), trace)
    assert cache.get(key()) is trace
    for change in (
        {"path": "other"}, {"mark": "newer"}, {"device": "cuda"}, {"sentence": "b"},
        {"beam_size": 1}, {"alpha": 0.0},
    ):  # fmt: skip
        assert cache.get(key(**change)) is None


def test_arrays_are_read_only_and_counted() -> None:
    cache, trace = TraceCache(10**9), make_trace()
    cache.put(key(), trace)
    assert cache.nbytes == size_of(trace)
    with pytest.raises(ValueError, match="read-only"):
        trace.cross[0, 0, 0, 0] = 1


def test_the_bound_holds_and_the_least_recently_used_goes_first() -> None:
    size = size_of(make_trace())
    cache = TraceCache(3 * size)
    for sentence in "abc":
        cache.put(key(sentence), make_trace())
    assert cache.get(key("a")) is not None  # now the most recently used
    cache.put(key("d"), make_trace())
    assert cache.nbytes == 3 * size
    assert [s for s in "abcd" if cache.get(key(s)) is not None] == ["a", "c", "d"]


def test_replacing_a_trace_counts_it_once() -> None:
    cache = TraceCache(10**9)
    cache.put(key(), make_trace(S=9))
    cache.put(key(), make_trace(S=5))
    assert len(cache) == 1
    assert cache.nbytes == size_of(make_trace(S=5))
    cache.clear()
    assert (len(cache), cache.nbytes) == (0, 0)


def test_the_newest_trace_is_kept_even_where_it_is_too_large() -> None:
    cache = TraceCache(10)
    cache.put(key("a"), make_trace())
    cache.put(key("b"), make_trace())
    assert cache.get(key("a")) is None
    assert cache.get(key("b")) is not None


def test_a_large_search_record_is_left_out_and_a_small_one_kept() -> None:
    block = np.zeros((100, 2, 3, 10), dtype=np.float32)
    steps = tuple(
        SearchStep(
            (), np.zeros((1, 1), np.int64), block[:1, 0, 0, :1], block[:1, 0, 0, 0], block, block
        )
        for _ in range(3)
    )
    trace = dataclasses.replace(make_trace(), search=SearchRecord(4, 0.6, 10, steps, ()))
    small, large = TraceCache(100 * block.nbytes), TraceCache(3 * block.nbytes)
    small.put(key(), trace)
    large.put(key(), trace)
    kept, stripped = small.get(key()), large.get(key())
    assert kept is not None
    assert kept.search is not None
    # The block is shared by all steps and is one block of memory.
    assert small.nbytes < size_of(trace) + 2 * block.nbytes
    assert stripped is not None
    assert stripped.search is None
    np.testing.assert_array_equal(stripped.cross, trace.cross)


def test_two_threads_make_one_trace() -> None:
    cache, made = TraceCache(10**9), []

    def work() -> None:
        with cache.making(key(), nothing):
            if cache.get(key()) is None:
                time.sleep(0.05)
                made.append(1)
                cache.put(key(), make_trace())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1]
    assert cache._making == {}


def test_work_that_is_stopped_leaves_nothing_behind() -> None:
    cache = TraceCache(10**9)
    with pytest.raises(KeyboardInterrupt), cache.making(key(), nothing):
        raise KeyboardInterrupt
    assert cache._making == {}
    with cache.making(key(), nothing):
        pass


def test_who_waits_is_asked_now_and_then_and_may_leave() -> None:
    class Leave(BaseException):
        pass

    def leave() -> None:
        raise Leave

    lock = threading.Semaphore(0)
    with pytest.raises(Leave), hold(lock, leave):
        pytest.fail("held a lock that was never free")
    lock.release()
    with hold(lock, leave):
        assert not lock.acquire(blocking=False)
    assert lock.acquire(blocking=False)
