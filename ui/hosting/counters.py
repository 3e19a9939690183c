"""OpenMetrics counters on a port of their own, which a proxy does not publish.

`HEADLIGHT_METRICS=9100` serves them to this machine only, `ADDRESS:PORT` to others.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable
from typing import Any

from ui.hosting.state import state
from ui.hosting.visitors import VISITORS

VARIABLE = "HEADLIGHT_METRICS"

_HERE = "127.0.0.1"


def metrics_address() -> tuple[str, int] | None:
    """Return the address of the counters, None if they are not served.

    Raises: `ValueError`, one line, if the variable holds neither a port nor `ADDRESS:PORT`.
    """
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return None
    address, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdecimal() and 0 < int(port) < 65_536):
        raise ValueError(f"{VARIABLE}={text[:40]}: must be a port from 1 to 65535, or ADDRESS:PORT")
    return address.strip("[]") or _HERE, int(port)


class Server:
    """This server's figures, as a collector of `prometheus_client`."""

    def collect(self) -> Iterable[Any]:
        """Yield the metrics."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        from ui.work import models, results
        from ui.work.budget import COUNTS

        now = state(needs_model=False)
        gauges = (
            ("visitors", "Visitors at once.", now.visitors),
            ("visitors_limit", "Most visitors at once; 0 for no limit.", now.most_visitors),
            ("waiting", "Sentences and computations in the queues.", now.waiting),
            ("results_bytes", "Results in the cache, in bytes.", results.CACHE.nbytes),
            ("models_bytes", "Models in memory, in bytes.", models.MODELS.nbytes),
            ("models", "Models in memory.", len(models.MODELS)),
        )
        for name, said, value in gauges:
            yield GaugeMetricFamily(f"headlight_{name}", said, value)
        counters = (
            ("visitors_turned_away", "Pages and connections refused on a full server.",
             VISITORS.turned_away),
            ("places_given_up", "Idle visitors evicted while others waited.",
             VISITORS.evictions),
            ("sentences", "Sentences traced.", COUNTS["sentences"]),
            ("computations", "Computations made from traces.", COUNTS["computations"]),
            ("over_budget", "Jobs refused or ended over a used quota.",
             COUNTS["over_budget"]),
        )  # fmt: skip
        for name, said, value in counters:
            yield CounterMetricFamily(f"headlight_{name}", said, value)


def serve_counters() -> None:
    """Serve the counters if a port is set. Raises: `ValueError`, one line, if that cannot be."""
    place = metrics_address()
    if place is None:
        return
    try:
        client = importlib.import_module("prometheus_client")
    except ImportError:
        raise ValueError(f"{VARIABLE} needs prometheus-client: pip install .[metrics]") from None
    registry = client.CollectorRegistry()
    registry.register(client.ProcessCollector(registry=None))
    registry.register(Server())
    address, port = place
    try:
        client.start_http_server(port, address, registry)
    except OSError as error:
        raise ValueError(f"{VARIABLE}={address}:{port}: {error.strerror or error}") from None
