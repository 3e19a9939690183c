"""Legends: samples with names in a row, and the colour scales of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from figures.paper.pen import Block, Pen
from figures.paper.presets import Preset
from figures.paper.text import fitted, width_of


@dataclass(frozen=True)
class Sample:
    """A line or a square with its name.

    Attributes:
        name: beside it.  colour: of it.
        thick: of the line; 0 for a square, below 0 for a name without a sample.
    """

    name: str
    colour: str
    thick: float = 0


def legend(samples: Sequence[Sample], preset: Preset, room: float) -> Block:
    """Return the samples from left to right, in as many lines as they need."""
    size, places = preset.small, []
    x = y = 0.0
    for each in samples:
        sample = 0.0 if each.thick < 0 else 2.2 * size if each.thick else 1.2 * size
        name = fitted(each.name, size, room - sample)
        wide = sample + width_of(name, size)
        if x and x + wide > room:
            x, y = 0.0, y + 1.5 * size
        places.append((x, y, each, name, sample))
        x += wide + 1.5 * size

    def draw(pen: Pen, left: float, top: float) -> None:
        for x, y, each, name, sample in places:
            at, middle = left + x, top + y + 0.75 * size
            if each.thick > 0:
                pen.line(at, middle, at + 1.7 * size, middle, each.colour, each.thick)
            elif each.thick == 0:
                pen.rect(at, middle - 0.4 * size, 0.8 * size, 0.8 * size, each.colour)
            pen.text(at + sample, middle, name, size, preset.chrome.ink)

    return Block(room, y + 1.5 * size, draw)
