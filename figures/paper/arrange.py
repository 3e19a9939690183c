"""Where the parts of a figure stand."""

from __future__ import annotations

from figures.exhibit import Exhibit
from figures.graph import Graph
from figures.paper.pen import Block, Pen
from figures.paper.presets import Preset
from figures.paper.tree import tree

#: The height of a printed page between its margins, in points.
PAGE = 9 * 72


def arranged(exhibit: Exhibit, preset: Preset, room: float, most: float) -> Block:
    """Return the trees below each other; `most` is the height that there is, 0 if any."""
    blocks = [
        tree(part, preset, room, most or PAGE) for part in exhibit.parts if isinstance(part, Graph)
    ]

    def draw(pen: Pen, left: float, top: float) -> None:
        for b in blocks:
            b.draw(pen, left, top)
            top += b.height

    return Block(room, sum(b.height for b in blocks), draw)
