"""Matrices on paper: a row of panels whose rows line up.

Small maps are drawn as cells that a vector program can edit, larger ones as an embedded picture
with one pixel per cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

import numpy as np

from figures.exhibit import Panel
from figures.palette import hex_of
from figures.paper.colours import coloured, picture
from figures.paper.pen import Block, Pen, Row, label
from figures.paper.presets import Preset
from figures.paper.text import fitted, width_of, wrapped

_LONG = 3  # matrices with sides of this ratio may have cells that are no squares
_STRETCH = 2.5  # how much longer such a cell may be
_KEPT = 0.6  # of the height that titles leave to the cells at least
_APART = 1.05  # distance of labels in sizes of their type


@dataclass(frozen=True)
class Style:
    """What all matrices of a figure share.

    Attributes:
        limits: end of the diverging scale of each quantity.
        shapes: draw cells as shapes.
    """

    limits: Mapping[str, float]
    shapes: bool


def matrix_row(
    panels: Sequence[Panel], above: Sequence[Panel], preset: Preset, room: float, style: Style
) -> Row:
    """Return matrices side by side, with cells of one size.

    Args:
        above: the panels in the row above whose columns need no labels again.
    """
    row = _MatrixRow(tuple(panels), tuple(above), preset, room, style)
    return Row(row.header, row.build, row.widest)


@dataclass(frozen=True)
class _MatrixRow:
    panels: tuple[Panel, ...]
    above: tuple[Panel, ...]
    preset: Preset
    room: float
    style: Style

    @property
    def size(self) -> float:
        return self.preset.small

    @property
    def pad(self) -> float:
        return 0.5 * self.size

    @property
    def least_gap(self) -> float:
        return 0.7 * self.size if len(self.panels) > 3 else 2 * self.size

    @cached_property
    def gap(self) -> float:
        """Between two panels; it takes some of the room that is left."""
        if len(self.panels) == 1:
            return 0.0
        taken = self.widest * sum(panel.values.shape[1] for panel in self.panels)
        spare = self.room - sum(self.gutters) - taken
        gap: float = max(self.least_gap, min(spare / len(self.panels), 9 * self.size))
        return gap

    @cached_property
    def rows(self) -> list[list[str]]:
        """The labels left of each panel; none if its left neighbour has the same."""
        before = (None, *self.panels)
        return [
            [] if left and left.rows == panel.rows else [label(each) for each in panel.rows]
            for left, panel in zip(before, self.panels, strict=False)
        ]

    @cached_property
    def columns(self) -> list[list[str]]:
        """The labels above each panel; none if the panel above has the same."""
        over = (*self.above, *[None] * len(self.panels))
        return [
            [] if up and up.columns == panel.columns else [label(each) for each in panel.columns]
            for up, panel in zip(over, self.panels, strict=False)
        ]

    @cached_property
    def gutters(self) -> list[float]:
        """The room left of each panel, for labels and the axis' title."""
        found = []
        for panel, labels in zip(self.panels, self.rows, strict=True):
            share = (0.3, 0.24, 0.18)[min(len(self.panels), 3) - 1]
            wide = min(_widest(labels, self.size), share * self.room)
            title = 1.5 * self.size if panel.row_title and labels else 0
            found.append(wide + title + self.pad if labels else 0.0)
        return found

    @cached_property
    def widest(self) -> float:
        """The largest width of a cell."""
        gaps = self.least_gap * (len(self.panels) - 1)
        room = self.room - sum(self.gutters) - gaps
        cell: float = room / sum(panel.values.shape[1] for panel in self.panels)
        return min(self.preset.cell, cell)

    @cached_property
    def titles(self) -> list[list[str]]:
        """The lines above each panel: the short title if the long one takes more than two."""
        found = []
        for panel in self.panels:
            # Beside the last one may be nothing but the margin.
            room = self.widest * panel.values.shape[1]
            room += 0.8 * self.gap if self.gap > self.least_gap else 0
            if len(self.panels) == 1:
                room = self.room - self.gutters[0]
            lines = wrapped(label(panel.title, 200), self.preset.text, room)
            if panel.short and len(lines) > 1:
                lines = [fitted(panel.short, self.preset.text, room)]
            found.append(lines)
        return found

    @property
    def tops(self) -> tuple[float, float, float]:
        """The heights of titles, of the axis' title, and of the labels above the matrices."""
        lines = max(len(lines) for lines in self.titles)
        labels = max(_widest(each, self.size) for each in self.columns)
        # Without room for all, the caption alone says what rows and columns are.
        named = all(panel.column_title for panel in self.panels) and all(
            width_of(label(panel.column_title, 60), self.size)
            <= self.widest * panel.values.shape[1] + 0.8 * self.gap
            for panel in self.panels
        )
        return lines * 1.25 * self.preset.text, 1.3 * self.size if named and labels else 0, labels

    @property
    def header(self) -> float:
        return sum(self.tops) + self.pad

    def cell(self, most: float) -> tuple[float, float]:
        """Width and height of a cell; squares, unless a matrix is much longer than wide."""
        n = max(panel.values.shape[0] for panel in self.panels)
        m = max(panel.values.shape[1] for panel in self.panels)
        wide, tall = self.widest, min(self.preset.cell, max(most, self.size) / n)
        stretch = _STRETCH if max(n, m) > _LONG * min(n, m) else 1.0
        least = min(wide, tall)
        # A cell that is a bit taller than wide may leave no row without its label.
        apart = _APART * self.size
        high = min(apart, tall) if 0.7 * apart <= wide < apart else stretch * least
        return min(wide, stretch * least), min(tall, max(high, least))

    def build(self, most: float) -> Block:
        wide, tall = self.cell(most)
        if wide < self.widest:  # narrower matrices have other titles
            narrow = replace(self, preset=replace(self.preset, cell=wide))
            taller = max(0.0, narrow.header - self.header)
            return narrow.build(max(most - taller, _KEPT * most))
        n = max(panel.values.shape[0] for panel in self.panels)
        starts, x = [], 0.0
        for panel, gutter in zip(self.panels, self.gutters, strict=True):
            starts.append(x + gutter)
            x += gutter + wide * panel.values.shape[1] + self.gap

        def draw(pen: Pen, left: float, top: float) -> None:
            for index, start in enumerate(starts):
                self._draw(pen, index, left + start, top, wide, tall)

        area = wide * tall * sum(panel.values.size for panel in self.panels)
        titles = zip(starts, self.titles, strict=True)
        ends = [start + _widest(lines, self.preset.text) for start, lines in titles]
        return Block(max(x - self.gap, *ends), self.header + n * tall, draw, area)

    def _draw(self, pen: Pen, index: int, x: float, top: float, wide: float, tall: float) -> None:
        panel, preset, size = self.panels[index], self.preset, self.size
        ink, quiet = preset.chrome.ink, preset.chrome.muted
        n, m = panel.values.shape
        titles, named, labels = self.tops
        for line, words in enumerate(self.titles[index]):
            down = titles - (len(self.titles[index]) - line - 0.5) * 1.25 * preset.text
            pen.text(x, top + down, words, preset.text, ink, kind="panel")
        y = top + self.header
        if self.columns[index]:
            if named:
                words = label(panel.column_title, 60)
                pen.text(x, top + titles + named / 2, words, size, quiet)
            for j in range(0, m, ceil(_APART * size / wide)):
                words = fitted(self.columns[index][j], size, labels)
                pen.text(x + (j + 0.5) * wide, y - self.pad / 2, words, size, ink, upright=True)
        if self.rows[index]:
            across = self.gutters[index] - self.pad
            across -= 1.5 * size if panel.row_title else 0
            for i in range(0, n, ceil(_APART * size / tall)):
                words = fitted(self.rows[index][i], size, across)
                at = y + (i + 0.5) * tall
                pen.text(x - self.pad / 2, at, words, size, ink, anchor="end", kind="row")
            words = label(panel.row_title, 60) if panel.row_title else ""
            if width_of(words, size) <= n * tall + 0.1:
                pen.text(x - self.gutters[index] + 0.6 * size, y + n * tall / 2, words, size, quiet,
                         anchor="middle", upright=True)  # fmt: skip
        self._cells(pen, panel, x, y, wide, tall)
        pen.rect(x, y, m * wide, n * tall, stroke=preset.chrome.rule, thick=0.5, kind="matrix")

    def _cells(self, pen: Pen, panel: Panel, x: float, y: float, wide: float, tall: float) -> None:
        limit, (n, m) = self.style.limits.get(panel.quantity), panel.values.shape
        if not self.style.shapes:
            across, down = m * wide, n * tall
            url = picture(panel, limit, self.preset, max(across, down))
            pen.picture(x, y, across, down, url)
            return
        colours, known = coloured(panel.values, panel.scale, limit, self.preset)
        pen.elements.append('<g shape-rendering="crispEdges">')
        for i, j in zip(*np.nonzero(known), strict=True):
            fill = hex_of(colours[i, j])
            pen.rect(x + j * wide, y + i * tall, wide, tall, fill, kind="cell")
        pen.elements.append("</g>")


def _widest(labels: Sequence[str], size: float) -> float:
    return max((width_of(each, size) for each in labels), default=0.0)
