"""Server state for balancers."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from ui.hosting.visitors import VISITORS

#: Set when the libraries that pages import are loaded.
libraries = threading.Event()

#: Why the first model of a public server has not been loaded; emptied by `ui.frame.serving`.
missing = ["the first model is being loaded"]


@dataclass(frozen=True)
class State:
    """The state of this server: why it cannot answer a first page, if it is not ready."""

    ready: bool
    why: str
    models: int  # number of models in memory
    waiting: int  # sentences, computations, files and models in the queues
    visitors: int
    most_visitors: int  # the limit, 0 for none


def state(needs_model: bool) -> State:
    """Return the state; a public server `needs_model` before its first visitor."""
    loaded = waiting = 0
    why = "" if libraries.is_set() else "libraries are being loaded"
    if not why:
        from ui.work import models, results

        loaded = len(models.MODELS)
        waiting = models.LOADS.waiting + sum(each.waiting for each in results.SCHEDULES)
        if needs_model and missing:
            why = missing[0]
    return State(not why, why, loaded, waiting, VISITORS.now, VISITORS.most)
