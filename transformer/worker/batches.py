"""Batches of short sentences that wait for the same model.

A step of a small model is bound by its calls: six sentences in one search take less than half of
the time of six searches.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from contextlib import suppress
from typing import Any

from transformer.catalogue import ModelRef
from transformer.trace.records import Trace
from transformer.trace.tracer import Tracer
from transformer.translator import Translator
from transformer.types import Report
from transformer.worker.job import STOP, Job, StoppedError
from transformer.worker.limits import shares
from transformer.worker.scheduler import Scheduler
from transformer.worker.tracing import (
    SHORT,
    checked,
    is_small,
    model_bytes,
    open_unchanged,
    trace_in_turn,
)

#: Most sentences of a batch, each a short one: nobody waits long for the others.
MOST = 6

#: Limit in bytes for the models of a process; the least recently used are dropped first.
MODEL_BYTES = shares().worker

#: Arguments that sentences of a batch share; others are one sentence's own.
_COMMON = {"beam_size", "alpha"}

_Batch = dict[Job[Trace], str]


class BatchError(Exception):
    """Raised in the jobs of a failed batch, whose sentences are then traced alone."""


class Batches:
    """Traces of sentences, one batch at a time. Thread-safe."""

    def __init__(self, scheduler: Scheduler) -> None:
        """Create it. Args: scheduler: runs batches and single sentences."""
        self._scheduler = scheduler
        self._open: dict[Hashable, _Batch] = {}
        self._lock = threading.Lock()

    def trace(
        self, model: Tracer, sentence: str, arguments: Mapping[str, Any], report: Report
    ) -> Trace:
        """Trace a sentence, alone or with those that arrive while it waits; see `trace_in_turn`."""
        fits = isinstance(model, Translator) and is_small(model) and len(sentence) <= SHORT
        if not fits or not arguments.keys() <= _COMMON:
            return trace_in_turn(model, sentence, arguments, self._scheduler, report)
        key = (id(model), *sorted(arguments.items()))
        job: Job[Trace] = Job()
        with self._lock:
            batch = self._open.get(key)
            if batch is None or len(batch) >= MOST:
                batch = self._open[key] = {job: sentence}
                work = (model, key, batch, arguments)
                threading.Thread(target=self._run, args=work, daemon=True).start()
            else:
                batch[job] = sentence
        try:
            return job.result(report)
        except BatchError:
            return trace_in_turn(model, sentence, arguments, self._scheduler, report)

    def _run(
        self, model: Translator, key: Hashable, batch: _Batch, arguments: Mapping[str, Any]
    ) -> None:
        def step(done: int, most: int) -> None:
            for job in list(batch):
                job.progress = done, most
            if all(job.request == STOP for job in list(batch)):
                raise StoppedError

        try:
            with self._scheduler.turn(lambda ahead: step(ahead, 0)) as turn:
                self._close(key, batch)
                turn.share(len(batch))

                def step_in_turn(done: int, most: int) -> None:
                    step(done, most)
                    turn.offer()

                traces = model.traces([*batch.values()], **arguments, progress=step_in_turn)
                for job, trace in zip(batch, traces, strict=True):
                    job.future.set_result(checked(model, trace, step_in_turn))
        except Exception:  # noqa: BLE001 - each sentence is traced alone and raises its own error
            self._close(key, batch)
            for job in batch:
                if not job.future.done():
                    job.future.set_exception(BatchError())

    def _close(self, key: Hashable, batch: _Batch) -> None:
        with self._lock:
            if self._open.get(key) is batch:
                del self._open[key]


_models: OrderedDict[tuple[ModelRef, str], Tracer] = OrderedDict()
_opening, _batches = threading.Lock(), Batches(Scheduler())


def warm_up(report: Report) -> None:
    """Do nothing; importing this module is what takes time in a new process."""


def trace_by_reference(
    ref: ModelRef, device: str, sentence: str, arguments: Mapping[str, Any], report: Report
) -> Trace:
    """Trace a sentence in this process; see `open_unchanged` and `Batches.trace`."""
    model = _models.get((ref, device))
    if model is None:  # sentences of others do not wait for this opening
        with _opening:
            model = _opened(ref, device)
    with suppress(KeyError):  # it may have gone meanwhile
        _models.move_to_end((ref, device))
    return _batches.trace(model, sentence, arguments, report)


def _opened(ref: ModelRef, device: str) -> Tracer:
    stored = _opened(ref.edited(""), device) if ref.edits else None
    key = (ref, device)
    model = _models.get(key) or open_unchanged(ref, device, stored)
    _models[key] = model
    while len(_models) > 1 and sum(map(model_bytes, [*_models.values()])) > MODEL_BYTES:
        _models.popitem(last=False)
    return model
