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


def test_a_plan_is_made_in_the_job_of_its_trace(
    view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it yields is computed there and sent back; the plan itself runs in its session."""
    jobs, here, heard = [], threading.current_thread(), []
    attended = cache.attended
    monkeypatch.setattr(cache, "attended", lambda *args: (jobs.append(1), attended(*args))[1])

    def plan(trace: Trace) -> cache.Plan:
        assert threading.current_thread() is here
        first = yield cache.Computation("one", (), lambda model, trace: trace.source)
        heard.append((yield cache.Computation("two", first, lambda *_: first.upper())))

    trace = cache.get_trace(view, plan)
    assert (heard, len(jobs)) == (["A DOG RUNS."], 1)
    assert cache.get_trace(view, plan) is trace
    assert cache.computed(view, "two", trace.source, lambda *_: "") == "A DOG RUNS."
    assert (heard, len(jobs)) == (["A DOG RUNS."] * 2, 1)

    def longer(trace: Trace) -> cache.Plan:
        yield from plan(trace)
        for name in ("three", "four"):
            heard.append((yield cache.Computation(name, (), lambda *_, name=name: name)))

    assert cache.get_trace(view, longer) is trace
    assert (heard[2:], len(jobs)) == (["A DOG RUNS.", "three", "four"], 2)


def test_several_computations_are_one_job(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = []
    attended = cache.attended
    monkeypatch.setattr(cache, "attended", lambda *args: (jobs.append(1), attended(*args))[1])
    wanted = [cache.Computation("number", n, lambda _, trace, n=n: n) for n in range(3)]
    for _ in range(2):
        assert cache.prepare(view, wanted) == [0, 1, 2]
    assert jobs == [1]
