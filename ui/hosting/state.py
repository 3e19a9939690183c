"""Server state for balancers, and OpenMetrics counters on a port that a proxy does not publish.

`HEADLIGHT_METRICS=9100` serves the counters to this machine only, `ADDRESS:PORT` to others.
"""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

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
    models: list[str]  # names of the models in memory
    waiting: int  # sentences and computations in the queues
    visitors: int
    most_visitors: int  # the limit, 0 for none


def state(needs_model: bool) -> State:
    """Return the state; a public server `needs_model` before its first visitor."""
    names: list[str] = []
    waiting = 0
    why = "" if libraries.is_set() else "libraries are being loaded"
    if not why:
        from ui.work import models, results

        names = sorted({key[0].name for key in models.MODELS})  # type: ignore[index]
        waiting = results.SENTENCES.waiting + results.OTHERS.waiting
        if needs_model and missing:
            why = missing[0]
    return State(not why, why, names, waiting, VISITORS.now, VISITORS.most)


METRICS = "HEADLIGHT_METRICS"


def metrics_address() -> tuple[str, int] | None:
    """Return the address of the counters, None without one. Raises: `ValueError`, one line."""
    text = os.environ.get(METRICS, "").strip()
    if not text:
        return None
    address, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdecimal() and 0 < int(port) < 65_536):
        raise ValueError(f"{METRICS}={text[:40]}: must be a port from 1 to 65535, or ADDRESS:PORT")
    return address.strip("[]") or "127.0.0.1", int(port)


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
        raise ValueError(f"{METRICS} needs prometheus-client: pip install .[metrics]") from None
    registry = client.CollectorRegistry()
    registry.register(client.ProcessCollector(registry=None))
    registry.register(Server())
    address, port = place
    try:
        client.start_http_server(port, address, registry)
    except OSError as error:
        raise ValueError(f"{METRICS}={address}:{port}: {error.strerror or error}") from None
