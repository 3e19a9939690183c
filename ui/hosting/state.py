"""Server state for balancers."""

from __future__ import annotations

import threading
from typing import Any

from ui.core.public import is_public
from ui.hosting.visitors import VISITORS

#: Set when the libraries that pages import are loaded.
libraries = threading.Event()

#: Why the first model of a public server has not been loaded; emptied by `ui.frame.serving`.
missing = ["the first model is being loaded"]


def state() -> dict[str, Any]:
    """Return whether this server can answer a first page, and why not if it is not `ready`.

    `models` are those in memory, `waiting` counts sentences, computations and files in the queues,
    and `most_visitors` is the limit, 0 for none.
    """
    loaded = waiting = 0
    why = "" if libraries.is_set() else "libraries are being loaded"
    if not why:
        from ui.work import models, results

        loaded = len(models.MODELS)
        waiting = results.waiting()
        why = missing[0] if missing and is_public() else ""
    return {
        "ready": not why, "why": why, "models": loaded, "waiting": waiting,
        "visitors": VISITORS.now, "most_visitors": VISITORS.most,
    }  # fmt: skip
