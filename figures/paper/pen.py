"""Writes SVG. Text is data: whatever is drawn is escaped, and every invisible sign made visible."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.sax.saxutils import escape, quoteattr

from figures.labels import plain_token

Anchor = Literal["start", "middle", "end"]

_MIDDLE = 0.36  # of the type size: from a line's middle down to the baseline


class Pen:
    """Collects the elements of a drawing, in points, from the left and from the top."""

    def __init__(self) -> None:
        self.elements: list[str] = []

    def rect(
        self, x: float, y: float, width: float, height: float, fill: str = "none",
        *, stroke: str = "", thick: float = 1, radius: float = 0, kind: str = "", dash: str = "",
    ) -> None:  # fmt: skip
        """Draw a rectangle; `kind` is its class."""
        at = {"class": kind, "x": x, "y": y, "width": width, "height": height, "fill": fill}
        self._add("rect", {**at, "rx": radius or None, **_stroke(stroke, thick, dash)})

    def line(
        self, x: float, y: float, u: float, v: float, stroke: str, thick: float = 1, dash: str = ""
    ) -> None:
        """Draw a straight line."""
        self._add("line", {"x1": x, "y1": y, "x2": u, "y2": v, **_stroke(stroke, thick, dash)})

    def path(
        self, d: str, stroke: str, thick: float = 1, *, fill: str = "none", kind: str = ""
    ) -> None:
        """Draw a path whose commands are numbers and letters."""
        self._add("path", {"class": kind, "d": d, "fill": fill, **_stroke(stroke, thick, "")})

    def circle(self, x: float, y: float, radius: float, fill: str) -> None:
        """Draw a dot."""
        self._add("circle", {"cx": x, "cy": y, "r": radius, "fill": fill})

    def picture(self, x: float, y: float, width: float, height: float, url: str) -> None:
        """Draw an image from a data URL, stretched without blur."""
        at = {"x": x, "y": y, "width": width, "height": height, "preserveAspectRatio": "none"}
        self._add("image", {**at, "image-rendering": "pixelated", "xlink:href": url})

    def text(
        self, x: float, y: float, words: str, size: float, fill: str, *, anchor: Anchor = "start",
        bold: bool = False, italic: bool = False, upright: bool = False, kind: str = "",
    ) -> None:  # fmt: skip
        """Write one line whose middle is at y, or from bottom to top with its middle at x."""
        if not words:
            return
        x, y = (x + _MIDDLE * size, y) if upright else (x, y + _MIDDLE * size)
        given = {
            "class": kind, "x": x, "y": y, "font-size": size, "fill": fill,
            "text-anchor": anchor if anchor != "start" else None,
            "font-weight": 600 if bold else None, "font-style": "italic" if italic else None,
            "transform": f"rotate(-90 {number(x)} {number(y)})" if upright else None,
        }  # fmt: skip
        self._add("text", given, escape(xml_safe(words)))

    def _add(self, tag: str, given: Mapping[str, object], content: str = "") -> None:
        written = "".join(
            f" {name}={quoteattr(number(value) if isinstance(value, float) else str(value))}"
            for name, value in given.items()
            if value not in (None, "")
        )
        end = f">{content}</{tag}>" if content else "/>"
        self.elements.append(f"<{tag}{written}{end}")


@dataclass(frozen=True)
class Block:
    """A piece of a figure whose size is known before it is drawn.

    Attributes:
        width, height: points.
        draw: draws it with its upper left corner at (x, y).
        area: of its matrices and plots, in square points.
    """

    width: float
    height: float
    draw: Callable[[Pen, float, float], None]
    area: float = 0.0


@dataclass(frozen=True)
class Row:
    """Parts that stand beside each other.

    Attributes:
        fixed: the height of its titles and labels.
        build: returns the row, given the largest height of its matrices or plots.
        cell: the width of its matrices' cells, 0 without any.
    """

    fixed: float
    build: Callable[[float], Block]
    cell: float = 0.0


def stacked(blocks: Sequence[Block], gap: float) -> Block:
    """Return blocks below each other."""

    def draw(pen: Pen, left: float, top: float) -> None:
        for block in blocks:
            block.draw(pen, left, top)
            top += block.height + gap

    height = sum(block.height for block in blocks) + gap * (len(blocks) - 1)
    area = sum(block.area for block in blocks)
    return Block(max(block.width for block in blocks), height, draw, area)


def beside(rows: Sequence[Row], gap: float) -> Row:
    """Return rows side by side."""

    def build(most: float) -> Block:
        blocks = [row.build(most) for row in rows]

        def draw(pen: Pen, left: float, top: float) -> None:
            for block in blocks:
                block.draw(pen, left, top)
                left += block.width + gap

        width = sum(block.width for block in blocks) + gap * (len(blocks) - 1)
        height = max(block.height for block in blocks)
        return Block(width, height, draw, sum(block.area for block in blocks))

    return rows[0] if len(rows) == 1 else Row(max(row.fixed for row in rows), build)


def number(value: float) -> str:
    """Return a coordinate with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if value else "0"


def label(token: str, limit: int = 24) -> str:
    """Return a token as every picture on screen writes it."""
    return plain_token(xml_safe(token), limit)


def xml_safe(words: str) -> str:
    """Replace the few invisible code points that XML does not allow."""
    return re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]", "\ufffd", words)


def _stroke(colour: str, thick: float, dash: str) -> dict[str, object]:
    if not colour:
        return {}
    return {"stroke": colour, "stroke-width": thick, "stroke-dasharray": dash or None}
