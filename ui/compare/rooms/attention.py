"""The attention of both sides: which kind, how to look at it, and their difference."""

from __future__ import annotations

from ui.compare.choice import BESIDE
from ui.compare.maps.differences import differences_download, draw_differences
from ui.compare.maps.exhibits import maps_download
from ui.compare.maps.views import PARAMS, draw_maps, open_maps
from ui.compare.sides import CompareRoom, Download, Pair
from ui.core import url_state


def _draw(pair: Pair) -> Download | None:
    """The maps, their difference, all of them, or lines."""
    display = url_state.get(BESIDE)
    both = open_maps(pair, display)
    if both is None:
        return None
    if display == "differences":
        draw_differences(both)
        return differences_download(both)
    draw_maps(both, display)
    return maps_download(both, display)


ROOM = CompareRoom("maps", _draw, page="attention", params=(BESIDE, *PARAMS))
