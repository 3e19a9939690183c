"""Sentence tracing, in the server or in a separate process."""

import dataclasses
import threading
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import torch

from transformer.files.safe import fingerprint
from transformer.models.catalogue import ModelRef, opened
from transformer.models.one_stack.tracer import StackModel
from transformer.trace.records import Trace
from transformer.trace.tracer import Tracer
from transformer.translator import Translator
from transformer.types import CheckpointError
from transformer.worker.job import UNKNOWN, Job, Scheduler, report
from transformer.worker.limits import shares

#: Models with up to this many parameters are faster, and steadier under load, on one thread each.
ONE_THREAD_PARAMETERS = 100_000_000

#: Characters of a short sentence. Each further `_LONGER` characters, whose first step takes longer,
#: put a sentence behind arrivals up to a second later.
_SHORT, _LONGER = 200, 100

#: Copies of the weights in memory: the model's own, and for decoding on the CPU up to three other
#: layouts, for one row, few rows and more (`transformer.execution.products`).
COPIES = 4

#: Maximum bytes for a process's models; the least recently used are dropped first.
MODEL_BYTES = shares().worker

#: Schedule of sentences. Small models that alternate every few microseconds slow each other down.
SENTENCES = Scheduler()

_models: OrderedDict[tuple[ModelRef, str], Tracer] = OrderedDict()
_opening = threading.Lock()


def model_bytes(model: Tracer) -> int:
    """Return the bytes that a model takes in memory, or 0 for an array file."""
    if isinstance(model, Translator):
        return COPIES * 4 * model.config.n_numbers
    return int(getattr(model, "nbytes", 0))


def open_unchanged(ref: ModelRef, device: str, stored: Tracer | None = None) -> Tracer:
    """Open a model whose files are unchanged since it was resolved.

    Args: stored: the model without edits, if it is already in memory.

    Raises: errors of `open_tracer`, and `CheckpointError` if the files have changed.
    """
    loaded = opened(ref, device, stored)
    if fingerprint(ref.folder) != ref.mark:
        raise CheckpointError(f"{ref}: changed since this page was drawn; reload the page")
    if loaded.device == "cpu" and is_small(loaded) and torch.get_num_threads() > 1:
        torch.set_num_threads(1)
        if isinstance(loaded, Translator):
            loaded.repack()  # another kernel may be fastest on one thread
    return loaded


def is_small(model: Tracer) -> bool:
    """Return True for one of this project's models that computes on one thread."""
    return isinstance(model, Translator | StackModel) and (
        model.config.n_parameters <= ONE_THREAD_PARAMETERS
    )


def trace_in_turn(model: Tracer, sentence: str, arguments: Mapping[str, Any]) -> Trace:
    """Trace a sentence in its turn, and check the recorded maps; progress goes to `report`.

    Args: arguments: keyword arguments of `Tracer.trace`, whose errors are raised.
    """
    with SENTENCES.turn(behind=max(0, len(sentence) - _SHORT) / _LONGER):
        report(*UNKNOWN)  # skips cancelled requests
        return checked(model, model.trace(sentence, **arguments, progress=report))


def checked(model: Tracer, trace: Trace) -> Trace:
    """Return a trace with the gap between its maps and a second pass, if there is one."""
    if trace.search is None or not isinstance(model, Translator):
        return trace
    n_steps = len(trace.predicted_tokens)
    gap = model.forcing_gap(trace, progress=lambda *_: report(n_steps, n_steps))
    return dataclasses.replace(trace, forcing_gap=gap)


def warm_up(_: Job[None]) -> None:
    """Do nothing; importing this module takes the time in a new process."""


def trace_by_reference(
    ref: ModelRef, device: str, sentence: str, arguments: Mapping[str, Any], late: float,
    job: Job[Trace],
) -> Trace:  # fmt: skip
    """Trace a sentence in this process; see `open_unchanged` and `trace_in_turn`."""
    job.late = late
    model = _models.get((ref, device))
    if model is None:  # other models' sentences do not wait for this opening
        with _opening:
            model = _opened(ref, device)
    with suppress(KeyError):  # another thread may have removed it
        _models.move_to_end((ref, device))
    return trace_in_turn(model, sentence, arguments)


def _opened(ref: ModelRef, device: str) -> Tracer:
    stored = _opened(ref.edited(""), device) if ref.edits else None
    model = _models[ref, device] = _models.get((ref, device)) or open_unchanged(ref, device, stored)
    while len(_models) > 1 and sum(map(model_bytes, [*_models.values()])) > MODEL_BYTES:
        _models.popitem(last=False)
    return model
