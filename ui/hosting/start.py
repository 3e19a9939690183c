"""Checks before the server starts, and preparations as it starts."""

import logging
import os
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import streamlit as st

from transformer.files.folders import RUNS, clear_away, remove_stages
from transformer.worker.limits import processors, shares
from ui.core import public
from ui.core.public import quota
from ui.hosting.gate import frames
from ui.hosting.visitors import VISITORS, most_visitors
from ui.platform.server import contact_no_server
from ui.work.roots import checkpoint_roots

log = logging.getLogger(__name__)

#: Log lines of one kind in `WINDOW` seconds, and their length; further lines are only counted.
MOST, WINDOW, LONGEST = 5, 60.0, 4000


def problems() -> list[str]:
    """Return the errors in this server's settings, as lines."""
    errors = []
    checks: tuple[Callable[[], object], ...] = (most_visitors, frames, shares, quota)
    for check in checks:
        try:
            check()
        except ValueError as error:
            errors.append(str(error))
    if public.is_public():
        if not st.get_option("server.allowedHosts"):
            errors.append(
                f"{public.VARIABLE}=1 needs this server's host names: add "
                "--server.allowedHosts headlight.example.org, or set it in .streamlit/config.toml"
            )
        if public.setting("HEADLIGHT_IMPORT") in public.ON:
            errors.append(f"{public.VARIABLE}=1 and HEADLIGHT_IMPORT=on contradict each other")
    return errors


def prepare() -> None:
    """Set limits, and remove a killed server's leftovers."""
    VISITORS.most = most_visitors()
    contact_no_server()
    if (count := processors()) < (os.cpu_count() or 1):  # PyTorch counts the whole machine's
        os.environ.setdefault("OMP_NUM_THREADS", str(count))
    with suppress(ImportError, ValueError, OSError):
        import resource

        # Raise the soft limit of open files: a visitor needs three.
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    lines = clear_away(checkpoint_roots())
    with suppress(FileNotFoundError):  # without a temporary folder, there are no leftovers
        if remove_stages(Path(tempfile.gettempdir()), RUNS, own=True):
            lines.append("Removed training runs of a killed process")
    for line in lines:
        log.warning("Headlight: %s", line)
    limit_lines()


class Sparse(logging.Filter):
    """Limits log lines of one kind, and logs the number omitted later. Thread-safe.

    A kind is a place in the code and an error type: visitors can cause lines and choose their text,
    but not their place.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._seen: dict[tuple[str, int, str], tuple[float, int]] = {}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True to log a line, which is cut if it is long."""
        error = record.exc_info[0] if record.exc_info else None
        kind = (record.pathname, record.lineno, error.__name__ if error else "")
        now, left_out = self._clock(), 0
        with self._lock:
            since, count = self._seen.get(kind, (now, 0))
            if now - since >= WINDOW:
                left_out, since, count = max(0, count - MOST), now, 0
            self._seen[kind] = (since, count + 1)
        if count >= MOST:
            return False
        if record.exc_info and not record.exc_text:
            traceback = logging.Formatter().formatException(record.exc_info)[-LONGEST:]
            record.exc_text = "\n".join(f" {_plain(line)}" for line in traceback.splitlines())
        note = f" ({left_out:,} similar lines omitted)" if left_out else ""
        record.msg, record.args = _plain(record.getMessage()[:LONGEST]) + note, ()
        return True


def _plain(text: str) -> str:
    """Return text on one line, so visitors cannot forge log lines or move the cursor."""
    return "".join(char if char.isprintable() else " " for char in text)


#: The filter of all loggers.
_LINES = Sparse()


class _Logger(logging.Logger):
    """A logger that is made after the start."""

    def __init__(self, name: str, level: int = logging.NOTSET) -> None:
        super().__init__(name, level)
        self.addFilter(_LINES)


def limit_lines() -> None:
    """Limit the lines of every logger, even of loggers that libraries make later."""
    logging.setLoggerClass(_Logger)
    for logger in (logging.root, *logging.root.manager.loggerDict.values()):
        if isinstance(logger, logging.Logger):
            logger.addFilter(_LINES)
