import dataclasses
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter, methodcaller
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.waiting import wait_until
from transformer.models.catalogue import resolve
from transformer.trace.records import Trace
from transformer.translator import Translator
from transformer.types import CheckpointError, InputError, Report
from transformer.worker import process, tracing
from transformer.worker.job import UNKNOWN, Job, Register, StoppedError
from transformer.worker.process import LostError, Pool, Process, start_alone
from transformer.worker.tracing import trace_by_reference, trace_in_turn, warm_up

CAT = "The cat sat on the mat."
SETTINGS = {"beam_size": 4, "alpha": 0.6}


@pytest.fixture(scope="module")
def worker() -> Iterator[Process]:
    started = Process()
    yield started
    started.close()


def traced(
    worker: Process, path: Path, sentence: str = CAT, mark: str | None = None,
    report: Report = lambda *_: None, **arguments: Any,
) -> Trace:  # fmt: skip
    ref = resolve(path)
    ref = ref if mark is None else dataclasses.replace(ref, mark=mark)
    settings = SETTINGS | arguments
    return worker.start(trace_by_reference, ref, "cpu", sentence, settings, 0.0).result(report)


@pytest.mark.parametrize("arguments", [{}, {"beam_size": 1, "prefix": [7, 8]}, {"target": "a b"}])
def test_traces_equal_local_ones(
    worker: Process, tiny_checkpoint: Path, arguments: dict[str, Any]
) -> None:
    found = traced(worker, tiny_checkpoint, **arguments)
    model = Translator.load(tiny_checkpoint, device="cpu")
    expected = trace_in_turn(model, CAT, SETTINGS | arguments)
    for field in dataclasses.fields(Trace):
        here, there = getattr(expected, field.name), getattr(found, field.name)
        if isinstance(here, np.ndarray):
            np.testing.assert_allclose(there, here, atol=1e-6, err_msg=field.name)
        elif field.name not in ("search", "score", "forcing_gap"):
            assert there == here, field.name
    assert (found.search is None) == (expected.search is None)
    assert (found.forcing_gap is None) == (expected.forcing_gap is None)


def test_each_job_gets_its_own_answer_or_error(worker: Process, tiny_checkpoint: Path) -> None:
    with pytest.raises(CheckpointError, match="no such checkpoint folder"):
        traced(worker, tiny_checkpoint.with_name("none"), mark="")
    with pytest.raises(CheckpointError, match="changed since this page was drawn"):
        traced(worker, tiny_checkpoint, mark="another")
    with pytest.raises(InputError, match="beam size"):
        traced(worker, tiny_checkpoint, beam_size=-1)
    assert worker.jobs == 0
    sentences = [f"{'the cat ' * n}sat." for n in range(1, 7)]
    with ThreadPoolExecutor(len(sentences)) as threads:
        traces = threads.map(lambda text: traced(worker, tiny_checkpoint, text), sentences)
        assert [trace.source for trace in traces] == sentences


def test_a_sentence_does_not_wait_until_another_model_is_open(
    tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, resume = threading.Event(), threading.Event()

    def slow(*_: object) -> None:
        begun.set()
        resume.wait(60)
        raise CheckpointError

    def ask(mark: str) -> Trace:
        ref = dataclasses.replace(resolve(tiny_checkpoint), mark=mark)
        return trace_by_reference(ref, "cpu", CAT, SETTINGS, 0.0, lambda *_: None)

    known = resolve(tiny_checkpoint).mark
    ask(known)
    monkeypatch.setattr(tracing, "open_unchanged", slow)
    with ThreadPoolExecutor(1) as threads:
        other = threads.submit(ask, "other")
        assert begun.wait(60)
        assert ask(known).source == CAT and not other.done()
        resume.set()


def test_a_job_ends_once_its_caller_leaves(worker: Process, tiny_checkpoint: Path) -> None:
    def leave(step: int, most: int) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        traced(worker, tiny_checkpoint, "dog " * 150, report=leave, beam_size=10)
    wait_until(lambda: worker.jobs == 0)
    assert traced(worker, tiny_checkpoint).complete is not None


def test_requests_and_progress_cross_and_outcomes_that_can_be_pickled(worker: Process) -> None:
    job = worker.start(_echo)
    assert wait_until(lambda: job.progress == (3, 4))
    job.ask("hello")
    assert job.result(lambda *_: None) == ("hello", worker.pid)
    with pytest.raises(InputError, match="pickle"):
        worker.start(_unpicklable).result(lambda *_: None)


def test_a_process_ends_with_its_job_and_with_its_server(monkeypatch: pytest.MonkeyPatch) -> None:
    alone, other = Process(), Process()
    monkeypatch.setattr(process, "Process", lambda: alone)
    assert start_alone(attrgetter("progress")).result(lambda *_: None) == UNKNOWN
    assert wait_until(lambda: alone.ended)
    assert other._process.stdin is not None
    other._process.stdin.close()  # as the system does when the server is killed
    assert wait_until(lambda: other.ended) and other._process.returncode == 0


def test_a_killed_process_is_replaced_later(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = Pool(1, attrgetter("phase"))  # type: ignore[arg-type]
    assert workers.free(waiting=1) is None and not workers._workers  # nobody has to wait yet
    assert workers.free(waiting=2) is None  # it starts
    (first,) = workers._workers
    assert wait_until(lambda: workers.free(waiting=0) is first)
    job = first.start(methodcaller("ended", 60.0))  # waits
    os.kill(first.pid, signal.SIGKILL)
    with pytest.raises(LostError, match="killed"):
        job.result(lambda *_: None)
    with pytest.raises(LostError):
        first.start(warm_up)
    for _ in range(2):
        assert workers.free(waiting=5) is None and not workers._workers  # it pauses
    monkeypatch.setattr(workers, "_rest_until", 0.0)
    assert workers.free(waiting=5) is None
    (second,) = workers._workers
    workers.close()
    assert wait_until(lambda: second.ended)


def _echo(job: Job[tuple[object, int]]) -> tuple[object, int]:
    while job.request is None:
        job(3, 4)
    return job.request, os.getpid()


def _unpicklable(job: Job[object]) -> object:
    return lambda: None


def test_an_outcome_is_returned_or_raised() -> None:
    done: Job[int] = Job()
    assert done.start(lambda job: 7).result(lambda *_: None) == 7
    assert (done.phase, done.error) == ("done", "")
    failed: Job[int] = Job()
    with pytest.raises(ValueError, match="first"):
        failed.start(lambda job: int("first\nsecond")).result(lambda *_: None)
    assert failed.phase == "failed" and failed.error.endswith("'first\\nsecond'")


def test_work_ends_at_its_next_report_once_the_caller_has_left() -> None:
    left = threading.Event()

    def work(job: Job[None]) -> None:
        left.wait(60)
        job(1, 1)

    def leave(*_: int) -> None:
        raise InterruptedError

    job: Job[None] = Job()
    with pytest.raises(InterruptedError):
        job.start(work).result(leave)
    assert job.running  # the caller did not wait for it
    left.set()
    assert job.ended(60) and (job.phase, job.error) == ("stopped", "")
    with pytest.raises(StoppedError):
        job.future.result()


def test_a_register_runs_as_many_as_may_and_keeps_the_last() -> None:
    register, jobs = Register[str, Job[None]](kept=2, most=2), [Job[None]() for _ in range(5)]
    assert [register.begin(key, lambda: jobs[0]) is None for key in "aa"] == [False, True]
    assert register.begin("b", lambda: jobs[1]) is jobs[1]
    assert register.begin("c", pytest.fail) is None
    for job, key in zip(jobs[2:], "cda", strict=True):
        next(iter(register.running().values())).future.set_result(None)
        assert register.begin(key, lambda job=job: job) is job  # type: ignore[misc]
    assert [*register.all()] == ["c", "d", "a"] and [*register.running()] == ["d", "a"]
    assert register.get("a") is jobs[4] and register.get("b") is None
