"""The downloads of both sides' maps. Makers hold no trace, which would stay in memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from figures.exhibit import Exhibit
from ui.compare.choice import Setup
from ui.compare.maps.map_exhibits import (
    MapsChoice,
    Traces,
    differences_exhibit,
    evenness_exhibit,
    maps_exhibit,
)
from ui.compare.maps.views import Both
from ui.compare.programs import Compared
from ui.compare.sides import Download, compared
from ui.export.download import trace_for


def maps_download(both: Both, display: str) -> Download | None:
    """The download of the maps on screen; None if no head is chosen."""
    if display == "difference" and not both.fit.units:
        display = "matrix"
    if display == "lines" and not all(choice.heads for choice in both.choices):
        return None
    count = 0
    for maps, choice in zip(both.maps, both.choices, strict=True):
        n_layers, n_heads, n, m = maps.weights.shape
        count += n * m * {"grid": n_layers * n_heads, "lines": len(choice.heads)}.get(display, 1)
    return _download(maps_exhibit, both, display, count)


def differences_download(both: Both) -> Download:
    """The download of all differences, or of the entropies in their place."""
    if not both.fit.units:
        return _download(evenness_exhibit, both, "entropies")
    count = sum(maps.weights.size for maps in both.maps)
    return _download(differences_exhibit, both, "differences", count)


_MapsExhibit = Callable[[Traces, MapsChoice, Compared], Exhibit]


def _download(exhibit: _MapsExhibit, both: Both, display: str, n_numbers: int = 0) -> Download:
    shown = MapsChoice(display, both.choices)
    return Download(partial(_make, exhibit, both.setup, shown), shown.stem, n_numbers)


def _make(exhibit: _MapsExhibit, setup: Setup, shown: MapsChoice) -> Exhibit:
    traces = trace_for(setup.left), trace_for(setup.right)
    return exhibit(traces, shown, compared(setup))
