"""Sentences traced in a process of its own: the same traces and errors, and nothing left behind."""

from __future__ import annotations

import dataclasses
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.waiting import wait_until
from transformer.catalogue import resolve
from transformer.errors import CheckpointError, InputError
from transformer.trace.records import Trace
from transformer.translator import Translator
from transformer.worker import pool
from transformer.worker.pool import SETTING, Pool, Worker, most_workers
from transformer.worker.turns import Turns
from transformer.worker.work import trace_in_turn

CAT = "The cat sat on the mat."


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    started = Worker()
    wait_until(lambda: started.ready or started.ended)
    yield started
    started.close()


def traced(worker: Worker, path: Path, sentence: str = CAT, **options: Any) -> Trace:
    arguments = {"beam_size": 4, "alpha": 0.6} | options.pop("arguments", {})
    ref, report = resolve(path), options.get("report", lambda *_: None)
    ref = dataclasses.replace(ref, mark=options.get("mark", ref.mark))
    return worker.trace(ref, "cpu", sentence, arguments, report)


@pytest.mark.parametrize("arguments", [{}, {"beam_size": 1, "prefix": [7, 8]}, {"target": "a b"}])
def test_a_trace_from_there_is_that_of_here(
    worker: Worker, tiny_checkpoint: Path, arguments: dict[str, Any]
) -> None:
    found = traced(worker, tiny_checkpoint, arguments=arguments)
    model = Translator.load(tiny_checkpoint, device="cpu")
    settings = {"beam_size": 4, "alpha": 0.6} | arguments
    expected = trace_in_turn(model, CAT, settings, Turns(1), lambda *_: None)
    for field in dataclasses.fields(Trace):
        here, there = getattr(expected, field.name), getattr(found, field.name)
        if isinstance(here, np.ndarray):
            np.testing.assert_allclose(there, here, atol=1e-6, err_msg=field.name)
        elif field.name not in ("search", "score", "forcing_gap"):
            assert there == here, field.name
    assert (found.search is None) == (expected.search is None)
    assert (found.forcing_gap is None) == (expected.forcing_gap is None)


def test_errors_come_back_as_they_were(worker: Worker, tiny_checkpoint: Path) -> None:
    with pytest.raises(CheckpointError, match="no such checkpoint folder"):
        traced(worker, tiny_checkpoint.with_name("none"), mark="")
    with pytest.raises(CheckpointError, match="changed since this page was drawn"):
        traced(worker, tiny_checkpoint, mark="another")
    with pytest.raises(InputError, match="beam size"):
        traced(worker, tiny_checkpoint, arguments={"beam_size": -1})
    assert worker.jobs == 0


def test_who_leaves_ends_the_job_and_the_next_one_runs(
    worker: Worker, tiny_checkpoint: Path
) -> None:
    class LeaveError(Exception):
        pass

    def leave(step: int, most: int) -> None:
        raise LeaveError

    long = " ".join(["dog"] * 150)
    with pytest.raises(LeaveError):
        traced(worker, tiny_checkpoint, long, report=leave, arguments={"beam_size": 10})
    assert worker.jobs == 0
    assert traced(worker, tiny_checkpoint).complete is not None


def test_several_jobs_at_once_get_their_own_answers(worker: Worker, tiny_checkpoint: Path) -> None:
    sentences = [f"{'the cat ' * n}sat." for n in range(1, 7)]
    found: dict[str, Trace] = {}
    threads = [
        threading.Thread(target=lambda each=each: found.update(
            {each: traced(worker, tiny_checkpoint, each)}
        ))
        for each in sentences
    ]  # fmt: skip
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert {each: found[each].source for each in sentences} == {each: each for each in sentences}


def test_a_process_that_is_killed_is_one_line_and_another_follows_later(
    tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = Pool(1)
    assert workers.free(waiting=1) is None and not workers.workers  # nobody has to wait yet
    assert workers.free(waiting=2) is None  # it starts
    (first,) = workers.workers
    wait_until(lambda: first.ready)
    assert workers.free(waiting=0) is first

    def kill(step: int, most: int) -> None:
        os.kill(first.pid, signal.SIGKILL)

    long = " ".join(["dog"] * 150)
    with pytest.raises(InputError, match="the process that translates ended"):
        traced(first, tiny_checkpoint, long, report=kill, arguments={"beam_size": 10})
    wait_until(lambda: first.ended)
    assert workers.free(waiting=5) is None and workers.workers == ()
    assert workers.free(waiting=5) is None and workers.workers == ()  # it rests
    monkeypatch.setattr(workers, "_rest_until", 0.0)
    assert workers.free(waiting=5) is None
    (second,) = workers.workers
    workers.close()
    wait_until(lambda: second.ended)


def test_it_ends_with_its_server() -> None:
    started = Worker()
    assert started._process.stdin is not None
    started._process.stdin.close()  # as the system does when the server is killed
    wait_until(lambda: started.ended)
    assert started._process.returncode == 0


@pytest.mark.parametrize(
    ("setting", "processors", "most"),
    [("", 1, 1), ("", 2, 1), ("", 4, 3), ("", 64, 4), ("0", 8, 0), ("7", 2, 7), ("many", 2, 1)],
)
def test_how_many_there_are(
    setting: str, processors: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SETTING, setting)
    monkeypatch.setattr(pool.os, "cpu_count", lambda: processors)
    assert most_workers() == most
    assert Pool(0).free(waiting=99) is None
