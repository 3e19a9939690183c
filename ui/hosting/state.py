"""Server state for load balancers."""

import threading
from typing import Any

from ui.core.public import is_public
from ui.hosting.visitors import VISITORS

#: Set once the pages' libraries are loaded.
libraries = threading.Event()

#: Why a public server's first model is not loaded yet; emptied by `ui.frame.serving`.
missing = ["the first model is being loaded"]


def state() -> dict[str, Any]:
    """Return `ready`, True if this server can serve a first page, or else `why` it cannot.

    `models` counts models in memory, `waiting` counts sentences, computations and files in queues,
    and `most_visitors` is the limit, 0 for none.
    """
    loaded = waiting = 0
    why = "" if libraries.is_set() else "libraries are being loaded"
    if not why:
        from ui.work import models, results

        loaded, waiting = len(models.MODELS), results.waiting()
        why = missing[0] if missing and is_public() else ""
    return {
        "ready": not why, "why": why, "models": loaded, "waiting": waiting,
        "visitors": VISITORS.now, "most_visitors": VISITORS.most,
    }  # fmt: skip
