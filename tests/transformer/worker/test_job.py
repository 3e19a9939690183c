"""Jobs in threads: outcome, progress, requests, and an end on request."""

import threading

import pytest

from transformer.worker.job import UNKNOWN, Job, StoppedError


def test_an_outcome_is_returned_or_raised() -> None:
    done: Job[int] = Job()
    assert done.start(lambda job: 7).result(lambda *_: None) == 7
    assert (done.phase, done.error) == ("done", "")
    failed: Job[int] = Job()
    with pytest.raises(ValueError, match="first"):
        failed.start(lambda job: int("first\nsecond")).result(lambda *_: None)
    assert failed.phase == "failed" and failed.error.endswith("'first\\nsecond'")


def test_progress_and_requests_pass_between_threads() -> None:
    asked = threading.Event()

    def work(job: Job[object]) -> object:
        job(1, 2)
        asked.wait(60)
        return job.request

    seen: list[tuple[int, int]] = []

    def waiting(*progress: int) -> None:
        seen.append(progress)
        job.ask("faster")
        asked.set()

    job: Job[object] = Job()
    assert job.progress == UNKNOWN
    assert job.start(work).result(waiting) == "faster"
    assert seen[-1] == (1, 2)


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
