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


def test_a_failure_leaves_nothing_and_frees_the_permit(view: View) -> None:
    def fail(model: Translator, trace: Trace) -> int:
        raise KeyError("x")

    for _ in range(3):
        with pytest.raises(KeyError):
            cache.computed(view, "failing", 0, fail)
    assert cache.computed(view, "failing", 0, lambda *_: 1) == 1


def test_a_plan_runs_in_its_session_and_is_sent_results(view: View) -> None:
    here, sent = threading.current_thread(), []

    def plan(trace: Trace) -> cache.Plan:
        first = yield cache.Computation("one", (), lambda model, trace: trace.source)
        assert threading.current_thread() is here
        sent.append((yield cache.Computation("two", first, lambda *_: first.upper())))

    trace = cache.get_trace(view, plan)
    assert sent == ["A DOG RUNS."]
    assert cache.get_trace(view, plan) is trace and sent == ["A DOG RUNS."] * 2
    assert cache.computed(view, "two", trace.source, lambda *_: "") == "A DOG RUNS."


def test_a_plan_is_sent_none_for_another_trace_that_fails(view: View) -> None:
    sent = []

    def plan(trace: Trace) -> cache.Plan:
        for sentence in ("The cat sat.", "A dog runs. " * 300):
            sent.append((yield dataclasses.replace(view, sentence=sentence).request))

    cache.get_trace(view, plan)
    assert sent[0].source == "The cat sat." and sent[1] is None


def test_several_computations_are_one_job(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = []
    attended = cache.attended
    monkeypatch.setattr(cache, "attended", lambda *args: (jobs.append(1), attended(*args))[1])
    wanted = [cache.Computation("number", n, lambda _, trace, n=n: n) for n in range(3)]
    for _ in range(2):
        assert cache.prepare(view, wanted) == [0, 1, 2]
    assert jobs == [1]
