from __future__ import annotations

import dataclasses
import threading
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from transformer.trace.records import Trace
from transformer.translator import Translator
from ui.core.view import View
from ui.work import cache, computed
from ui.work.computed import ResultCache
from ui.work.traces import TraceCache


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "TRACES", TraceCache(64 * 2**20))
    monkeypatch.setattr(computed, "RESULTS", ResultCache(2**20))


@pytest.fixture
def view(tiny_checkpoint: Path) -> View:
    return View("tiny", tiny_checkpoint, "cpu", "A dog runs.")


def mean_weight(model: Translator, trace: Trace) -> NDArray[np.float32]:
    return trace.cross.mean(axis=(0, 1))


def test_it_is_made_once_from_the_views_own_model_and_trace(view: View) -> None:
    seen: list[tuple[str, str]] = []

    def make(model: Translator, trace: Trace) -> NDArray[np.float32]:
        seen.append((model.name, trace.source))
        return mean_weight(model, trace)

    first = computed.computed(view, "mean", (), make)
    assert computed.computed(view, "mean", (), make) is first
    assert seen == [("tiny", "A dog runs.")]


def test_everything_it_depends_on_is_in_the_key(view: View) -> None:
    other = dataclasses.replace(view, sentence="The cat sat on the mat.")
    found = [
        computed.computed(each, name, args, lambda model, trace: object())
        for each in (view, other)
        for name in ("one", "two")
        for args in ((1, "a"), (1, "b"))
    ]
    assert len({id(each) for each in found}) == 8


def test_arrays_are_read_only_wherever_they_lie(view: View) -> None:
    arrays = [np.zeros(3) for _ in range(3)]
    computed.computed(view, "arrays", 0, lambda *_: {"a": arrays[0], "b": (arrays[1], [arrays[2]])})
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_none_is_a_result_too(view: View) -> None:
    calls = []
    for _ in range(2):
        assert computed.computed(view, "nothing", 0, lambda *_: calls.append(1)) is None
    assert calls == [1]


def test_the_cache_is_bounded_in_bytes_and_forgets_the_least_recently_used() -> None:
    kept = ResultCache(1_000_000)
    for i in range(10):
        kept.put(i, np.zeros(25_000))  # 200 kB each
        assert kept.get(0) is not None
    assert kept.nbytes <= 1_000_000
    assert len(kept) == 4
    assert kept.get(1) is None
    assert kept.get(9) is not None
    kept.put("large", np.zeros(10**6))
    assert len(kept) == 1


def test_messages_count_like_arrays() -> None:
    kept = ResultCache(1_000_000)
    for i in range(10):
        kept.put(i, {"a message": bytes(200_000)})
    assert len(kept) == 4
    assert 800_000 <= kept.nbytes <= 1_000_000


def test_small_results_are_bounded_too() -> None:
    kept = ResultCache(1_000_000)
    for i in range(2_000):
        kept.put(i, str(i))
    assert len(kept) < 300


def test_sessions_at_once_make_it_at_most_twice_and_never_three_at_a_time(view: View) -> None:
    running, most, made = [0], [0], [0]
    lock, barrier = threading.Lock(), threading.Barrier(6)
    cache.trace(cache.key_of(view), lambda step, limit: None)

    def make(model: Translator, trace: Trace) -> int:
        with lock:
            running[0] += 1
            made[0] += 1
            most[0] = max(most[0], running[0])
        threading.Event().wait(0.05)
        with lock:
            running[0] -= 1
        return 7

    def session() -> None:
        barrier.wait()
        assert computed.computed(view, "slow", 0, make) == 7

    threads = [threading.Thread(target=session) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made[0] <= 2
    assert most[0] <= 2


def test_a_failure_leaves_nothing_and_frees_the_permit(view: View) -> None:
    def fail(model: Translator, trace: Trace) -> int:
        raise KeyError("x")

    for _ in range(3):
        with pytest.raises(KeyError):
            computed.computed(view, "failing", 0, fail)
    assert computed.computed(view, "failing", 0, lambda *_: 1) == 1
