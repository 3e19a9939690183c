"""Short sentences that wait for the same model are traced in one batch.

A step of a small model is bound by its calls: six sentences in one search take less than half of
the time of six searches. Who waits for a turn takes those along that come meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from transformer.trace.records import Trace
from transformer.trace.tracer import Tracer
from transformer.translator import Translator
from transformer.worker.turns import Turns
from transformer.worker.work import Report, checked, is_small, trace_in_turn

#: Most sentences in a batch, and most characters of each: nobody waits long for the others.
MOST, SHORT = 6, 200

#: What sentences of one batch may set; everything else is one sentence's own.
_COMMON = {"beam_size", "alpha"}


@dataclass(eq=False)
class _Waiting:
    """A sentence that waits.

    Attributes:
        report: progress callback; once it has raised, nobody wants the trace.
        left: what it raised.  made: the trace.
        done: set once there is nothing to wait for; without a trace, it is to be made alone.
    """

    sentence: str
    report: Report
    left: BaseException | None = None
    made: Trace | None = None
    done: threading.Event = field(default_factory=threading.Event)

    def tell(self, step: int, most: int) -> None:
        """Call `report`, unless it has raised already."""
        if self.left is None:
            try:
                self.report(step, most)
            except BaseException as error:  # noqa: BLE001 - raised where the trace is waited for
                self.left = error


class Batches:
    """Traces of sentences, one batch at a time. Thread-safe."""

    def __init__(self, turns: Turns) -> None:
        """Create it. Args: turns: that each batch and each single sentence waits for."""
        self._turns = turns
        self._open: dict[Hashable, list[_Waiting]] = {}
        self._lock = threading.Lock()

    def trace(
        self, model: Tracer, sentence: str, arguments: Mapping[str, Any], report: Report
    ) -> Trace:
        """Trace a sentence, alone or with others; see `trace_in_turn`."""
        if not _fits(model, sentence, arguments):
            return trace_in_turn(model, sentence, arguments, self._turns, report)
        mine = _Waiting(sentence, report)
        key = (id(model), *sorted(arguments.items()))
        with self._lock:
            batch = self._open.get(key)
            leads = batch is None or len(batch) >= MOST
            if batch is None or leads:
                batch = self._open[key] = []
            batch.append(mine)
        if leads:
            self._lead(model, key, batch, arguments)
        else:
            mine.done.wait()
        if mine.left is not None:
            raise mine.left
        if mine.made is None:
            return trace_in_turn(model, sentence, arguments, self._turns, report)
        return mine.made

    def _lead(
        self, model: Tracer, key: Hashable, batch: list[_Waiting], arguments: Mapping[str, Any]
    ) -> None:
        """Wait for a turn, and trace all that wait with this one by then."""

        def tell(step: int, most: int) -> None:
            for each in list(batch):
                each.tell(step, most)
            if all(each.left is not None for each in batch):
                raise _EmptyError

        try:
            with self._turns.taken(lambda before: tell(before, 0)) as turn:
                self._close(key, batch)
                turn.share(len(batch))

                def step(step: int, most: int) -> None:
                    tell(step, most)
                    turn.offer()

                assert isinstance(model, Translator)
                sentences = [each.sentence for each in batch]
                traces = model.traces(sentences, **arguments, progress=step)
                last = max(len(made.predicted_tokens) for made in traces)
                for each, made in zip(batch, traces, strict=True):
                    each.made = checked(model, made, lambda *_: step(last, last))
        except Exception:  # noqa: BLE001 - who is still there is traced alone, and told why not
            return
        finally:
            self._close(key, batch)
            for each in batch:
                each.done.set()

    def _close(self, key: Hashable, batch: list[_Waiting]) -> None:
        with self._lock:
            if self._open.get(key) is batch:
                del self._open[key]


class _EmptyError(Exception):
    """Raised when nobody wants a batch."""


def _fits(model: Tracer, sentence: str, arguments: Mapping[str, Any]) -> bool:
    return (
        isinstance(model, Translator)
        and is_small(model)
        and len(sentence) <= SHORT
        and arguments.keys() <= _COMMON
    )
