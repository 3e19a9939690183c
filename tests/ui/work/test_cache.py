"""Results computed for pages, and their plans."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path

import pytest

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


def test_a_result_is_computed_once_by_name_and_arguments(view: View) -> None:
    seen: list[tuple[str, str]] = []

    def make(model: Translator, trace: Trace) -> object:
        seen.append((model.name, trace.source))
        return object()

    other = dataclasses.replace(view, sentence="The cat sat on the mat.")
    found = [
        cache.computed(each, cache.Computation(name, args, make))
        for each in (view, other)
        for name in ("one", "two")
        for args in ((1, "a"), (1, "b"))
        for _ in range(2)
    ]
    assert len({id(each) for each in found}) == len(seen) == 8
    assert set(seen) == {("tiny", "A dog runs."), ("tiny", other.sentence)}


def test_a_plan_runs_in_its_session_and_is_sent_results(view: View) -> None:
    here, sent = threading.current_thread(), []

    def plan(trace: Trace) -> cache.Plan:
        first = yield cache.Computation("one", (), lambda model, trace: trace.source)
        assert threading.current_thread() is here
        sent.append((yield cache.Computation("two", first, lambda *_: first.upper())))

    trace = cache.get_trace(view, plan)
    assert sent == ["A DOG RUNS."]
    assert cache.get_trace(view, plan) is trace and sent == ["A DOG RUNS."] * 2
    assert (
        cache.computed(view, cache.Computation("two", trace.source, lambda *_: "")) == "A DOG RUNS."
    )


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
