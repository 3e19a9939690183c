"""Server state, for balancers and counters."""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass

from ui.hosting.visitors import VISITORS

#: Set when the libraries that pages import are loaded.
libraries = threading.Event()

#: Error of loading the first model, if any; set by `ui.frame.serving`.
broken: list[str] = []


@dataclass(frozen=True)
class State:
    """The state of this server.

    Attributes:
        ready: whether the server can answer a first page.
        why: one line if it cannot.
        models: names of the models in memory.
        waiting: sentences and computations in the queues.
        visitors, most_visitors: their number, and the limit, 0 for none.
    """

    ready: bool
    why: str
    models: list[str]
    waiting: int
    visitors: int
    most_visitors: int

    def to_dict(self) -> dict[str, object]:
        """Return it for JSON."""
        return asdict(self)


def state(needs_model: bool) -> State:
    """Return the state.

    Args: needs_model: whether a model is loaded before the first visitor, as on a public server.
    """
    names: list[str] = []
    waiting = 0
    why = "" if libraries.is_set() else "libraries are being loaded"
    if not why:
        from ui.work import models, results

        names = sorted({key[0].name for key in models.MODELS})  # type: ignore[index]
        waiting = results.SENTENCES.waiting + results.OTHERS.waiting
        if needs_model and not names:
            why = broken[0] if broken else "the first model is being loaded"
    return State(not why, why, names, waiting, VISITORS.now, VISITORS.most)
