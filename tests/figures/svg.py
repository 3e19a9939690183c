"""Read a drawing: its size and the positions of its boxes, lines and texts."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from functools import cached_property

from figures.paper.text import width_of

_TAG = "{http://www.w3.org/2000/svg}"
parse = ET.fromstring  # the input is our own output


@dataclass(frozen=True)
class Rect:
    """A rectangle."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.x + self.width

    def holds(self, other: Rect) -> bool:
        """Whether it contains another rectangle, up to rounding."""
        return (
            self.x - 0.02 <= other.x
            and other.right <= self.right + 0.02
            and self.y - 0.02 <= other.y
            and other.y + other.height <= self.y + self.height + 0.02
        )

    def touches(self, x: float, y: float) -> bool:
        """Whether a point is the middle of the left or right border, up to rounding."""
        beside = min(abs(x - self.x), abs(x - self.right)) < 0.02
        return beside and abs(y - self.y - self.height / 2) < 0.02


@dataclass(frozen=True)
class Drawing:
    """An SVG; lengths inside are points, before a slide's scale."""

    svg: bytes

    @cached_property
    def root(self) -> ET.Element:
        return parse(self.svg)

    def size(self) -> tuple[float, float]:
        """Width and height in inches."""
        width, height = (self.root.get(each, "") for each in ("width", "height"))
        assert width.endswith("in") and height.endswith("in")
        return float(width[:-2]), float(height[:-2])

    @cached_property
    def scale(self) -> float:
        """The factor by which the parts are shrunk to fit."""
        found = [re.search(r"scale\(([\d.]+)\)", each.get("transform", "")) for each in
                 self.root.iter(f"{_TAG}g")]  # fmt: skip
        return min((float(each[1]) for each in found if each), default=1.0)

    def all(self, tag: str, kind: str | None = None) -> list[ET.Element]:
        """Elements with a tag, and a class if given."""
        return [
            each for each in self.root.iter(f"{_TAG}{tag}") if kind in (None, each.get("class"))
        ]

    def rects(self, kind: str) -> list[Rect]:
        return [
            Rect(*(float(each.get(name, 0)) for name in ("x", "y", "width", "height")))
            for each in self.all("rect", kind)
        ]

    def texts(self, kind: str | None = None) -> list[str]:
        return [each.text or "" for each in self.all("text", kind)]

    def types(self) -> list[float]:
        """Font sizes of all texts, in points on the page."""
        return [float(each.get("font-size", 0)) * self.scale for each in self.all("text")]

    def text_boxes(self, kind: str) -> list[tuple[str, Rect]]:
        """Left-aligned texts, with the boxes of their letters."""
        found = []
        for each in self.all("text", kind):
            size, words = float(each.get("font-size", 0)), each.text or ""
            wide = width_of(words, size, bold=each.get("font-weight") is not None)
            x, baseline = float(each.get("x", 0)), float(each.get("y", 0))
            found.append((words, Rect(x, baseline - 0.75 * size, wide, size)))
        return found

    def ends(self, kind: str) -> list[tuple[float, float, float, float]]:
        """Start and end of every path."""
        found = []
        for each in self.all("path", kind):
            numbers = [float(value) for value in re.findall(r"-?[\d.]+", each.get("d", ""))]
            found.append((*numbers[:2], *numbers[-2:]))
        return found
