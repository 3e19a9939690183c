"""A figure on its page: title, parts, scales of colours and caption, at the size of a preset.

On paper the width is fixed and the figure is as tall as it needs; on a slide the type of the parts
shrinks until they fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from math import ceil

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.exhibit import Exhibit, Panel, Series
from figures.graph import Graph
from figures.paper.matrix import Colours, Matrix, cell_size
from figures.paper.plot import Plot
from figures.paper.presets import POINTS, Preset
from figures.paper.style import fitted, label, width, wrapped
from figures.paper.tree import Tree

_PAGE = 9.0 * POINTS  # height of a printed page between its margins
_CELLS_AS_SHAPES = 2_500  # matrices with more cells become pictures
_MANY = 6  # more parts than this are a grid, whose rows stay as they are
_LEAST_CELL = 0.62  # of the labels' type; in narrower cells matrices go below each other
_PLOT = 17  # the least width of a plot, in sizes of its labels
_SLOPE, _TALL = 0.5, 16  # height of a plot at most: for its width, and in sizes of type
SPACING = 1.3  # of lines, in sizes of their type
_SHRINK, _LEAST = 0.92, 3.0  # of the type from try to try, and at last, where a slide is too full

Part = Panel | Series


def drawn(exhibit: Exhibit, preset: Preset) -> Figure:
    """Return the figure; `style` has to be in force until it is written."""
    title = _lines(exhibit.title, preset.title, preset, bold=True)
    caption = _lines(exhibit.legend, preset.text, preset)
    gap = 0.8 * preset.text
    taken = SPACING * (len(title) * preset.title + len(caption) * preset.text)
    taken += 2 * gap + 2 * preset.margin
    height = preset.height * POINTS
    body = _Body(exhibit, preset, height - taken)
    while height and body.height > height - taken + 0.01 and body.preset.text > _LEAST:
        smaller = {name: _SHRINK * getattr(body.preset, name) for name in ("text", "small", "cell")}
        body = _Body(exhibit, replace(body.preset, **smaller), height - taken)
    height = height or taken + body.height
    sheet = Sheet(Figure((preset.width, height / POINTS), dpi=POINTS), preset)
    spare = (height - taken - body.height) / 2
    y = preset.margin
    y = sheet.write(title, y, preset.title, bold=True) + gap + spare
    body.draw(sheet, y)
    sheet.write(caption, y + body.height + gap + spare, preset.text)
    return sheet.figure


class Sheet:
    """A figure whose axes are placed in points, from the left margin and from the top."""

    def __init__(self, figure: Figure, preset: Preset) -> None:
        self.figure, self.preset = figure, preset
        self.wide, self.tall = figure.bbox.size

    def axes(self, x: float, y: float, width: float, height: float) -> Axes:
        """Return new axes."""
        x += self.preset.margin
        place = (x / self.wide, 1 - (y + height) / self.tall, width / self.wide, height / self.tall)
        return self.figure.add_axes(place)

    def write(
        self, lines: Sequence[str], y: float, size: float, x: float = 0, *, bold: bool = False
    ) -> float:
        """Write lines below each other. Returns: where they end."""
        for index, line in enumerate(lines):
            middle = 1 - (y + (index + 0.5) * SPACING * size) / self.tall
            self.figure.text(
                (x + self.preset.margin) / self.wide, middle, line, size=size,
                va="center_baseline", weight="bold" if bold else "normal",
            )  # fmt: skip
        return y + len(lines) * SPACING * size


class _Body:
    """The parts in rows, with the scales of their colours below; `height` is in points."""

    def __init__(self, exhibit: Exhibit, preset: Preset, most: float) -> None:
        """Args: most: the height that there is, on a slide."""
        self.preset = preset
        self.gap = 1.8 * preset.small
        panels = [part for part in exhibit.parts if isinstance(part, Panel)]
        graphs = [part for part in exhibit.parts if isinstance(part, Graph)]
        self.colours = Colours([] if graphs else panels, preset, _CELLS_AS_SHAPES)
        self.scales = [_Scale(*each, preset) for each in self.colours.scales()]
        most = most if preset.height else _PAGE
        self.rows: list[_Row] | list[Tree]
        fixed = sum(scale.height + self.gap for scale in self.scales)
        if graphs:
            self.rows = [Tree(graph, preset, most) for graph in graphs]
        else:
            self.rows = _rows(exhibit, preset)
            fixed += sum(row.fixed + self.gap for row in self.rows) - self.gap
            share = (most - fixed) / len(self.rows)
            for row in self.rows:
                row.place(max(share, 4 * preset.small))
        blocks = [*self.rows, *self.scales]
        self.height = sum(block.height for block in blocks) + self.gap * (len(blocks) - 1)

    def draw(self, sheet: Sheet, y: float) -> None:
        for row in self.rows:
            if isinstance(row, Tree):
                row.draw(sheet.axes(0, y, self.preset.room, row.height))
            else:
                row.draw(sheet, y, self.colours)
            y += row.height + self.gap
        for scale in self.scales:
            scale.draw(sheet, y)
            y += scale.height + self.gap


def _rows(exhibit: Exhibit, preset: Preset) -> list[_Row]:
    count = len(exhibit.parts)
    # A slide is wide: few parts stand side by side on it.
    columns = 0 if preset.height and count <= _MANY else exhibit.columns
    columns = columns or (count if count <= (4 if preset.height else 3) else ceil(count**0.5))
    rows: list[_Row] = []
    above: Sequence[Part] = ()
    for start in range(0, count, columns):
        parts = exhibit.parts[start : start + columns]
        if preset.height:
            rows.append(_Row(parts, above, preset))
        else:  # on paper one kind in a row
            for _, some in groupby(parts, key=type):
                rows += _fitting(tuple(some), above, preset)
        above = parts if count > _MANY else ()
    return rows


def _fitting(parts: Sequence[Part], above: Sequence[Part], preset: Preset) -> list[_Row]:
    row = _Row(parts, above, preset)
    if row.cell:
        wide = row.cell >= min(preset.cell, _LEAST_CELL * preset.small) or len(parts) > 3
    else:
        wide = preset.room / len(parts) >= _PLOT * preset.small
    if wide or len(parts) == 1:
        return [row]
    half = ceil(len(parts) / 2)
    halves = (parts[:half], parts[half:])
    rows = [each for some in halves for each in _fitting(some, (), preset)]
    if row.cell:  # cells of one size in all rows
        preset = replace(preset, cell=min(each.cell for each in rows))
        rows = [each for some in halves for each in _fitting(some, (), preset)]
    return rows


class _Row:
    """Parts side by side: matrices with cells of one size, and plots that share the rest.

    Attributes:
        cell: largest width of a cell; 0 without matrices.
        fixed: height of titles and labels.
    """

    def __init__(self, parts: Sequence[Part], above: Sequence[Part], preset: Preset) -> None:
        self.preset, size, n = preset, preset.small, len(parts)
        most = (0.3, 0.24, 0.18)[min(n, 3) - 1] * preset.room
        plain = all(isinstance(part, Series) for part in parts)
        self.gap = (3 if plain else 0.7 if n > 3 else 2) * size if n > 1 else 0.0
        slot = (preset.room - self.gap * (n - 1)) / n
        over = (*above, *[None] * n)
        self.parts: list[Matrix | Plot] = []
        for given, left, up in zip(parts, (None, *parts), over, strict=False):
            if isinstance(given, Series):
                self.parts.append(Plot(given, preset, slot))
            else:
                beside, on_top = (each if isinstance(each, Panel) else None for each in (left, up))
                self.parts.append(Matrix(given, beside, on_top, preset, most))
        self.shapes = [part.shape for part in self.parts if isinstance(part, Matrix)]
        plots = [part for part in self.parts if isinstance(part, Plot)]
        self.cell = 0.0
        if self.shapes:
            free = preset.room - sum(part.left for part in self.parts) - self.gap * (n - 1)
            free -= sum(plot.across + 0.5 * size for plot in plots)
            self.cell = min(preset.cell, free / sum(m for _, m in self.shapes))
        self.titles = self._titles(self.cell, 3)
        self.lines = max(map(len, self.titles))
        labels = max((part.top for part in self.parts if isinstance(part, Matrix)), default=0.0)
        for part in self.parts:
            if isinstance(part, Matrix):
                part.top = labels
        self.fixed = self.lines * SPACING * preset.text
        self.fixed += max(part.top + part.bottom for part in self.parts)

    def _wide(self, part: Matrix | Plot, cell: float) -> float:
        return cell * part.shape[1] if isinstance(part, Matrix) else part.across

    def _titles(self, cell: float, most: int) -> list[list[str]]:
        """Return the lines above each part: the short title if the long one takes more than one."""
        found = []
        for part in self.parts:
            given = part.panel if isinstance(part, Matrix) else part.series
            size, room = self.preset.text, self._wide(part, cell)
            if len(self.parts) == 1:
                room = self.preset.room - part.left
            lines = wrapped(label(given.title, 200), size, room) if given.title else []
            if isinstance(given, Panel) and given.short and len(lines) > 1:
                lines = [fitted(given.short, size, room)]
            if len(lines) > most:
                lines = [*lines[: most - 1], fitted(" ".join(lines[most - 1 :]), size, room)]
            found.append(lines)
        return found

    def place(self, most: float) -> None:
        """Choose sizes for a height of at most `most` besides titles and labels."""
        size = self.preset.small
        wide = tall = 0.0
        heights = {id(part): min(most, _SLOPE * part.across, _TALL * self.preset.text)
                   for part in self.parts if isinstance(part, Plot)}  # fmt: skip
        if self.shapes:
            n = max(n for n, _ in self.shapes)
            high = min(self.preset.cell, max(most, size) / n)
            wide, tall = cell_size(self.shapes, self.cell, high, size)
            self.titles = self._titles(wide, max(1, self.lines))
        self.sizes = [
            (
                self._wide(part, wide),
                tall * part.shape[0] if isinstance(part, Matrix) else heights[id(part)],
            )
            for part in self.parts
        ]
        self.height = self.lines * SPACING * self.preset.text + max(
            part.top + height + part.bottom
            for part, (_, height) in zip(self.parts, self.sizes, strict=True)
        )

    def draw(self, sheet: Sheet, y: float, colours: Colours) -> None:
        x, text = 0.0, self.preset.text
        for part, (wide, tall), lines in zip(self.parts, self.sizes, self.titles, strict=True):
            x += part.left
            top = y + SPACING * text * self.lines
            sheet.write(lines, top - SPACING * text * len(lines), text, x)
            ax = sheet.axes(x, top + part.top, wide, tall)
            if isinstance(part, Matrix):
                part.draw(ax, (wide, tall), wide + 0.8 * self.gap, colours)
            else:
                part.draw(ax, (wide, tall))
            x += wide + self.gap


class _Scale:
    """A bar of a scale's colours with its name beside it."""

    def __init__(
        self, name: str, table: np.ndarray, ticks: dict[float, str], preset: Preset
    ) -> None:
        self.table, self.preset, size = table, preset, preset.small
        self.inset, self.bar = 1.4 * size, min(0.3 * preset.room, 16 * size)
        self.right = self.inset + self.bar + 1.5 * size
        self.lines = wrapped(name, size, preset.room - self.right)
        self.height = max(2.3 * size, len(self.lines) * SPACING * size)
        self.ticks, end = {}, -self.inset
        for share, value in ticks.items():
            middle, half = share * self.bar, width(value, size) / 2
            if middle - half > end:
                self.ticks[share] = value
                end = middle + half + 0.4 * size

    def draw(self, sheet: Sheet, y: float) -> None:
        size = self.preset.small
        ax = sheet.axes(self.inset, y, self.bar, 0.9 * size)
        ax.imshow(self.table[None], extent=(0, 1, 0, 1), aspect="auto", interpolation="nearest")
        ax.set_yticks([])
        ax.set_xticks(list(self.ticks), list(self.ticks.values()), size=size)
        ax.tick_params(
            length=0.25 * size, width=0.5, color=self.preset.chrome.muted, pad=0.2 * size
        )
        sheet.write(self.lines, y - 0.2 * size, size, self.right)


def _lines(words: str, size: float, preset: Preset, *, bold: bool = False) -> list[str]:
    return wrapped(label(words, 2_000), size, preset.room, bold=bold) if words else []
