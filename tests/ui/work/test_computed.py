from __future__ import annotations

import dataclasses
import threading
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.views import make_view
from transformer.trace.records import Trace
from transformer.translator import Translator
from ui.core.view import View
from ui.work import cache, results
from ui.work.lru import Lru


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "CACHE", Lru(64 * 2**20))


@pytest.fixture
def view(tiny_checkpoint: Path) -> View:
    return make_view(tiny_checkpoint)


def mean_weight(model: Translator, trace: Trace) -> NDArray[np.float32]:
    return trace.cross.mean(axis=(0, 1))


def test_it_is_made_once_from_the_views_own_model_and_trace(view: View) -> None:
    seen: list[tuple[str, str]] = []

    def make(model: Translator, trace: Trace) -> NDArray[np.float32]:
        seen.append((model.name, trace.source))
        return mean_weight(model, trace)

    first = cache.computed(view, "mean", (), make)
    assert cache.computed(view, "mean", (), make) is first
    assert seen == [("tiny", "A dog runs.")]


def test_everything_it_depends_on_is_in_the_key(view: View) -> None:
    other = dataclasses.replace(view, sentence="The cat sat on the mat.")
    found = [
        cache.computed(each, name, args, lambda model, trace: object())
        for each in (view, other)
        for name in ("one", "two")
        for args in ((1, "a"), (1, "b"))
    ]
    assert len({id(each) for each in found}) == 8


def test_arrays_are_read_only_wherever_they_lie(view: View) -> None:
    arrays = [np.zeros(3) for _ in range(3)]
    cache.computed(view, "arrays", 0, lambda *_: {"a": arrays[0], "b": (arrays[1], [arrays[2]])})
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_sessions_at_once_make_it_once(view: View) -> None:
    made, barrier = [0], threading.Barrier(6)
    results.trace(view.request)

    def make(model: Translator, trace: Trace) -> int:
        made[0] += 1
        threading.Event().wait(0.05)
        return 7

    def session() -> None:
        barrier.wait()
        assert cache.computed(view, "slow", 0, make) == 7

    threads = [threading.Thread(target=session) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made[0] == 1


def test_a_failure_leaves_nothing_and_frees_the_permit(view: View) -> None:
    def fail(model: Translator, trace: Trace) -> int:
        raise KeyError("x")

    for _ in range(3):
        with pytest.raises(KeyError):
            cache.computed(view, "failing", 0, fail)
    assert cache.computed(view, "failing", 0, lambda *_: 1) == 1
