"""Settings that are checked before the server starts, and what it does for itself then."""

from __future__ import annotations

import logging
from contextlib import suppress

from streamlit import config

from transformer.fast.setting import is_measured
from ui.core import public
from ui.hosting.counters import metrics_address, serve_counters
from ui.hosting.headers import frames
from ui.hosting.quiet_log import quieten
from ui.hosting.visitors import VISITORS, idle_minutes, most_visitors
from ui.work.budget import limit
from ui.work.leftovers import put_in_order

log = logging.getLogger(__name__)


def problems() -> list[str]:
    """Return why the server must not start with these settings, a line each."""
    found = []
    for check in (most_visitors, idle_minutes, frames, metrics_address, _budget, is_measured):
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
    """Set limits, put in order what a killed server left, and serve counters if asked for.

    Raises: `ValueError`, one line, if counters cannot be served.
    """
    VISITORS.most, VISITORS.idle = most_visitors(), 60.0 * idle_minutes()
    quieten()
    more_descriptors()
    for line in put_in_order():
        log.warning("Headlight: %s", line)
    serve_counters()


def more_descriptors() -> None:
    """Raise the soft limit of open files and sockets to the hard one; each visitor needs three."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _budget() -> None:
    limit("seconds")
    limit("tokens")
