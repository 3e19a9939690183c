"""A figure on its page: the title, the parts, and the caption, at the size of a preset."""

from __future__ import annotations

from xml.sax.saxutils import escape

from figures.exhibit import Exhibit
from figures.paper.arrange import arranged
from figures.paper.pen import Block, Pen, label, number, xml_safe
from figures.paper.presets import POINTS, Preset
from figures.paper.text import FONT, wrapped

_SHRINK = 0.92  # of the type from try to try, where a slide is too full
_LEAST = 0.2
_FREE = 6  # parts that may stand in any number of columns


def drawn(exhibit: Exhibit, preset: Preset, unit: str = "in") -> str:
    """Return the figure as SVG.

    Args:
        unit: of the width and height: "in", or "" for points without a name.
    """
    title = _lines(exhibit.title, preset, preset.title, bold=True)
    caption = _lines(exhibit.legend, preset, preset.text)
    gap = 0.8 * preset.text
    taken = title.height + caption.height + 2 * gap + 2 * preset.margin
    body = _fitted(exhibit, preset, preset.height * POINTS - taken if preset.height else 0)
    width, height = preset.width * POINTS, preset.height * POINTS or taken + body.height
    spare = height - taken - body.height
    pen = Pen()
    pen.rect(0, 0, width, height, preset.paper)
    y = preset.margin
    for block, above in ((title, 0.0), (body, gap + spare / 2), (caption, gap + spare / 2)):
        y += above
        block.draw(pen, preset.margin, y)
        y += block.height
    scale = 1 / POINTS if unit else 1
    said = f"<title>{_xml(exhibit.title)}</title><desc>{_xml(exhibit.legend)}</desc>"
    return (
        f'<svg role="img" xmlns="http://www.w3.org/2000/svg" '
        f'xmlns:xlink="http://www.w3.org/1999/xlink" width="{_size(width * scale)}{unit}" '
        f'height="{_size(height * scale)}{unit}" viewBox="0 0 {number(width)} {number(height)}" '
        f'font-family="{FONT}">{said}{"".join(pen.elements)}</svg>'
    )


def _fitted(exhibit: Exhibit, preset: Preset, most: float) -> Block:
    """Return the parts; on a slide as large as they can be in a height of `most`."""
    if not most:
        return arranged(exhibit, preset, preset.room, 0)
    count = len(exhibit.parts)
    tried = [_shrunk(exhibit, preset, most, 0)]
    if 1 < count <= _FREE:
        tried += [_shrunk(exhibit, preset, most, columns) for columns in range(1, count + 1)]
    return max(tried, key=lambda block: block.area)


def _shrunk(exhibit: Exhibit, preset: Preset, most: float, columns: int) -> Block:
    """Return the parts in type so small that they are no taller than `most`."""
    scale = 1.0
    body = arranged(exhibit, preset, preset.room, most, columns)
    while body.height * scale > most + 0.01 and scale > _LEAST:
        scale *= _SHRINK
        body = arranged(exhibit, preset, preset.room / scale, most / scale, columns)

    def draw(pen: Pen, left: float, top: float) -> None:
        place = f"translate({number(left)} {number(top)}) scale({scale:.4f})"
        pen.elements.append(f'<g transform="{place}">')
        body.draw(pen, 0, 0)
        pen.elements.append("</g>")

    # Small type is worse than small cells.
    return Block(preset.room, body.height * scale, draw, body.area * scale**4)


def _lines(words: str, preset: Preset, size: float, *, bold: bool = False) -> Block:
    lines = wrapped(_text(words), size, preset.room, bold=bold)

    def draw(pen: Pen, left: float, top: float) -> None:
        for index, line in enumerate(lines):
            y = top + (index + 0.5) * 1.3 * size
            pen.text(
                left,
                y,
                line,
                size,
                preset.chrome.ink,
                bold=bold,
                kind="title" if bold else "caption",
            )

    return Block(preset.room, len(lines) * 1.3 * size, draw)


def _text(words: str) -> str:
    """Return text of any length as plain, visible text."""
    return label(words, 2_000) if words else ""


def _xml(words: str) -> str:
    return escape(xml_safe(_text(words)))


def _size(value: float) -> str:
    return f"{value:.4f}".rstrip("0").rstrip(".")
