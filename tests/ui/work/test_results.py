import dataclasses
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.factories import make_trace
from tests.views import make_view
from tests.waiting import wait_until
from transformer.search.rules import Sampling
from transformer.trace.records import Trace
from transformer.types import CheckpointError, InputError
from transformer.worker.job import Job, StoppedError, report
from transformer.worker.tracing import SENTENCES, trace_by_reference
from ui.core.view import Request, View
from ui.work import desk, results
from ui.work.lru import Lru
from ui.work.results import Computation


@pytest.fixture(autouse=True)
def _fresh_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "CACHE", Lru(64 * 2**20))


@pytest.fixture
def view(tiny_checkpoint: Path, tmp_path: Path) -> View:
    folder = tmp_path / "tiny"
    shutil.copytree(tiny_checkpoint, folder)
    return make_view(folder)


def test_every_choice_is_in_the_key(view: View, tmp_path: Path) -> None:
    shutil.copytree(view.path, tmp_path / "other")
    other = make_view(tmp_path / "other").entry
    newer = dataclasses.replace(view.entry.ref, mark="newer")
    changes: tuple[dict[str, Any], ...] = (
        {"entry": other}, {"device": "cuda"}, {"sentence": "A dog runs"},
        {"beam_size": 3}, {"alpha": 0.0}, {"prefix": (20,)}, {"prefix": (20, 21)},
        {"prefix": (20, view.entry.config.eos_id)},  # type: ignore[union-attr]
        {"target": "Ein Hund."}, {"sampling": Sampling()}, {"sampling": Sampling(seed=1)},
        {"entry": dataclasses.replace(view.entry, ref=newer)},
    )  # fmt: skip
    views = [view, *(dataclasses.replace(view, **change) for change in changes)]
    assert len({each.request for each in views}) == len({each.request.name for each in views})
    assert len({each.request for each in views}) == 1 + len(changes)
    greedy = dataclasses.replace(view, beam_size=1)  # settings without effect are not in it
    assert greedy.request == dataclasses.replace(greedy, alpha=1.5).request
    given = dataclasses.replace(view, target="Ein Hund.")
    for change in ({"beam_size": 2}, {"alpha": 1.5}, {"beam_size": 1, "sampling": Sampling()}):
        assert given.request == dataclasses.replace(given, **change).request


def test_steering_reaches_the_translator(view: View) -> None:
    model = desk.get_translator(view)
    ids = model.tokenize("Ein Hund").ids
    sampling = Sampling(temperature=1.4, seed=3)
    cases: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
        ({"prefix": ids}, {"prefix": ids}),
        ({"prefix": (*ids, model.config.eos_id)}, {"target": ids}),
        ({"target": "Ein Hund."}, {"target": "Ein Hund."}),
        ({"beam_size": 1, "sampling": sampling}, {"beam_size": 1, "sampling": sampling}),
    )
    for change, arguments in cases:
        made = results.trace(dataclasses.replace(view, **change).request)
        expected = model.trace(view.sentence, **arguments)
        assert made.predicted_ids == expected.predicted_ids
        assert (made.forced, made.n_forced) == (expected.forced, expected.n_forced)
        if made.forced:
            assert made.forcing_gap is None
        else:
            assert made.forcing_gap is not None and made.forcing_gap < 1e-5


def test_a_changed_file_is_another_checkpoint(view: View) -> None:
    first = desk.get_translator(view)
    assert desk.get_translator(view) is first
    os.utime(view.path / "model.safetensors", ns=(1, 1))
    changed = make_view(view.path)
    assert changed.request != view.request
    assert desk.get_translator(changed) is not first
    os.utime(view.path / "model.safetensors", ns=(2, 2))
    older = dataclasses.replace(changed.entry.ref, mark="older")
    with pytest.raises(CheckpointError, match="changed since this page was drawn"):
        results.load(dataclasses.replace(changed.request, model=older))


def test_only_a_small_search_record_is_kept(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = results.trace(view.request)
    monkeypatch.setattr(results, "CACHE", Lru(1000))
    stripped = results.trace(view.request)
    assert kept.search is not None and stripped.search is None
    np.testing.assert_array_equal(stripped.cross, kept.cross)


def test_errors_pass_and_neither_they_nor_stopped_traces_are_stored(view: View) -> None:
    stopped = Job[Trace]()
    stopped.stop()
    stopped.start(lambda _: results.trace(view.request))
    assert isinstance(stopped.future.exception(60), StoppedError)
    long = dataclasses.replace(view, sentence="A dog runs. " * 300)
    for _ in range(2):
        with pytest.raises(InputError, match="tokens"):
            results.trace(long.request)
    (view.path / "model.safetensors").write_bytes(b"no")
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        results.trace(make_view(view.path).request)
    assert not any(isinstance(key, Request) for key in results.CACHE)


def test_an_idle_process_is_asked_if_any(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, request = make_trace(), view.request

    class Ready:
        def free(self, waiting: int) -> "Ready":
            assert waiting == 0
            return self

        def start(self, *asked: Any) -> Job[Trace]:
            wanted = request.model, request.device, request.sentence, request.arguments()
            assert asked == (trace_by_reference, *wanted, 7.0)
            return Job[Trace]().start(lambda job: expected)

    model = results.load(request)
    monkeypatch.setattr(results, "WORKERS", Ready())
    job = Job[Trace](late=7.0).start(lambda _: results.trace(request))
    assert job.future.result(60) is expected
    # Snapshots, which one visitor scrubs through, are loaded once, here.
    monkeypatch.setattr(results, "load", lambda *_, **__: model)
    moment = dataclasses.replace(request, model=request.model.after(7))
    assert results.trace(moment).predicted_ids == model.trace(view.sentence).predicted_ids


def test_a_crowds_sentences_wait_behind_those_of_others(view: View) -> None:
    results.load(view.request)
    order = list[float]()

    def ask(late: float) -> None:
        results.trace(dataclasses.replace(view, sentence=f"A dog runs {late}").request)
        order.append(late)

    with SENTENCES.turn():
        jobs = []
        for late in (5.0, 0.0):
            jobs.append(Job[None](late=late).start(lambda job: ask(job.late)))
            assert wait_until(lambda: SENTENCES.waiting == len(jobs))
    for job in jobs:
        job.future.result(60)
    assert order == [0.0, 5.0]


def test_a_computation_makes_way_at_its_steps(view: View) -> None:
    order, begun = list[str](), threading.Event()

    def slow(*_: object) -> None:
        begun.set()
        assert wait_until(lambda: results.LONG.waiting == 1)
        report(1, 2)
        order.append("late")

    slowly = Computation("slow", (), slow)
    job = Job[None](late=5.0).start(lambda _: results.result_of(view.request, slowly))
    assert begun.wait(60)
    results.result_of(view.request, Computation("soon", (), lambda *_: order.append("soon")))
    job.future.result(60)
    assert order == ["soon", "late"]


def test_a_computation_may_ask_for_another(view: View) -> None:
    inner = Computation("inner", (), lambda _, trace: len(trace.src_tokens))
    outer = Computation("outer", (), lambda *_: results.result_of(view.request, inner))
    assert results.result_of(view.request, outer) > 0 == results.waiting()
