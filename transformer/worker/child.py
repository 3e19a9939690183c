"""The process that traces sentences: `python -m transformer.worker.child`, started by `pool`.

It reads orders from its standard input and answers on its standard output, both pickled; both ends
are this project's. It ends when its input does, so none outlives its server.

    ("trace", job, model, device, sentence, arguments)    begin a job
    ("stop", job)                                         end it at its next step

    ("ready",)                 libraries are loaded
    ("report", job, step, most)
    ("done", job, trace)
    ("failed", job, error)     an exception
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
import time
from collections import OrderedDict
from contextlib import suppress
from typing import Any, BinaryIO

from transformer.checkpoint.reference import ModelRef
from transformer.errors import InputError
from transformer.trace.tracer import Tracer
from transformer.translator import Translator
from transformer.worker.batches import Batches
from transformer.worker.turns import Turns
from transformer.worker.work import COPIES, open_unchanged

#: Limit in bytes for the models of one process; the least recently used go first.
MODEL_BYTES = 2**30

#: Seconds between two reports of a job.
_EVERY = 0.1


class StoppedError(Exception):
    """Raised in a job whose caller has gone."""


class Child:
    """The jobs of this process."""

    def __init__(self, answers: BinaryIO) -> None:
        self._answers = answers
        self._sending, self._opening = threading.Lock(), threading.Lock()
        self._batches = Batches(Turns(1))
        self._stopped: dict[int, threading.Event] = {}
        self._models: OrderedDict[tuple[ModelRef, str], Tracer] = OrderedDict()

    def serve(self, orders: BinaryIO) -> None:
        """Carry out orders until there are no more."""
        self._send("ready")
        while True:
            try:
                kind, job, *rest = pickle.load(orders)  # noqa: S301 - from this project's server
            except EOFError:
                return
            if kind == "stop":
                if (stopped := self._stopped.get(job)) is not None:
                    stopped.set()
                continue
            self._stopped[job] = threading.Event()
            threading.Thread(target=self._run, args=(job, *rest), daemon=True).start()

    def _run(
        self, job: int, ref: ModelRef, device: str, sentence: str, arguments: dict[str, Any]
    ) -> None:
        stopped, last = self._stopped[job], 0.0

        def report(step: int, most: int) -> None:
            nonlocal last
            if stopped.is_set():
                raise StoppedError
            if (now := time.monotonic()) - last >= _EVERY:
                last = now
                self._send("report", job, step, most)

        try:
            model = self._open(ref, device)
            self._send("done", job, self._batches.trace(model, sentence, arguments, report))
        except StoppedError:
            pass
        except Exception as error:  # noqa: BLE001 - raised where the job is waited for
            try:
                self._send("failed", job, error)
            except Exception:  # noqa: BLE001 - an error that cannot be pickled
                self._send("failed", job, InputError(str(error)))
        finally:
            del self._stopped[job]

    def _open(self, ref: ModelRef, device: str) -> Tracer:
        key = (ref, device)
        with self._opening:
            if key not in self._models:
                self._models[key] = open_unchanged(ref, device)
            self._models.move_to_end(key)
            while len(self._models) > 1 and sum(map(_size, self._models.values())) > MODEL_BYTES:
                self._models.popitem(last=False)
            return self._models[key]

    def _send(self, *answer: Any) -> None:
        data = pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
        with self._sending:
            self._answers.write(data)
            self._answers.flush()


def _size(model: Tracer) -> int:
    return COPIES * 4 * model.config.n_numbers if isinstance(model, Translator) else 0


def main() -> None:
    """Serve the process that started this one, until it closes its end."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not get among the answers
    with suppress(BrokenPipeError, pickle.UnpicklingError):  # the server was killed
        Child(answers).serve(sys.stdin.buffer)
    os._exit(0)  # callers of running jobs have gone


if __name__ == "__main__":
    main()
