"""Checks before the server starts, and preparations when it does."""

from __future__ import annotations

import logging
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from streamlit import config

from transformer.files.leftovers import RUNS, clear_away, remove_stages
from ui.core import public
from ui.hosting.headers import frames
from ui.hosting.visitors import VISITORS, idle_minutes, most_visitors
from ui.work.budget import limit
from ui.work.roots import checkpoint_roots

log = logging.getLogger(__name__)

#: Loggers whose lines visitors can cause.
LOGGERS = ("asyncio", "uvicorn.error", "uvicorn.access")

#: Lines of one kind logged within `WINDOW` seconds; further ones are counted.
MOST, WINDOW = 5, 60.0

#: Kinds of line distinguished.
_KINDS = 200


def problems() -> list[str]:
    """Return the errors in this server's settings, one line each."""
    found = []
    checks: list[Callable[[], object]] = [most_visitors, idle_minutes, frames]
    checks += [partial(limit, unit) for unit in ("seconds", "tokens")]
    for check in checks:
        try:
            check()
        except ValueError as error:
            found.append(str(error))
    if public.is_public():
        if not config.get_option("server.allowedHosts"):
            found.append(
                f"{public.VARIABLE}=1 needs the names under which this server is reached: add "
                "--server.allowedHosts headlight.example.org, or set it in .streamlit/config.toml"
            )
        if public.setting("HEADLIGHT_IMPORT") in public.ON:
            found.append(f"{public.VARIABLE}=1 and HEADLIGHT_IMPORT=on contradict each other")
    return found


def prepare() -> None:
    """Set limits, and remove leftovers of a killed server."""
    VISITORS.most, VISITORS.idle = most_visitors(), 60.0 * idle_minutes()
    for name in LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(each, Sparse) for each in logger.filters):
            logger.addFilter(Sparse())
    with suppress(ImportError, ValueError, OSError):
        import resource

        # Files and sockets: the soft limit is raised, as each visitor needs three.
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    lines = clear_away(checkpoint_roots())
    if remove_stages(Path(tempfile.gettempdir()), RUNS, own=True):
        lines.append("Removed training runs of a killed process")
    for line in lines:
        log.warning("Headlight: %s", line)


class Sparse(logging.Filter):
    """Limits repeated log lines and logs their count later. Thread-safe.

    Without descriptors left, asyncio logs a traceback for each refused connection, thousands a
    second.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._seen: dict[tuple[str, int, str], tuple[float, int]] = {}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log a line."""
        kind = (record.name, record.levelno, str(record.msg).partition("\n")[0][:200])
        now = self._clock()
        with self._lock:
            since, count = self._seen.pop(kind, (now, 0))
            if now - since >= WINDOW:
                left_out, since, count = max(0, count - MOST), now, 0
                if left_out:
                    record.msg = f"{record.msg} ({left_out:,} similar lines omitted)"
            self._seen[kind] = (since, count + 1)
            while len(self._seen) > _KINDS:
                self._seen.pop(next(iter(self._seen)))
        return count < MOST
