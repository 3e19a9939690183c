"""The attention of both sides: which kind, how to look at it, and their difference."""

from __future__ import annotations

from collections.abc import Mapping

from ui.compare.choice import BESIDE
from ui.compare.maps.differences import draw_differences
from ui.compare.maps.downloads import differences_download, maps_download
from ui.compare.maps.views import PARAMS, draw_maps, open_maps
from ui.compare.programs import LETTERS
from ui.compare.sides import CompareRoom, Download, Pair
from ui.core import url_state
from ui.core.side import Side
from ui.core.url_state import HEAD, KIND, LAYER


def _draw(pair: Pair) -> Download | None:
    """The maps, their difference, all of them, or lines."""
    display = url_state.get(BESIDE)
    both = open_maps(pair, display)
    if both is None:
        return None
    if display == "differences":
        draw_differences(both)
    else:
        draw_maps(both, display)

    def settings(side: Side) -> Mapping[str, str]:
        layer, head = (
            LAYER.write(None if index is None else index + 1)
            for index in both.choices[LETTERS.index(side.letter)].cell
        )
        return {KIND.name: both.kind, LAYER.name: layer, HEAD.name: head}

    pair.links(settings)
    if display == "differences":
        return differences_download(both)
    return maps_download(both, display)


ROOM = CompareRoom("maps", _draw, page="attention", params=(BESIDE, *PARAMS))
