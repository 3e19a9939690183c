"""A figure on its page: title, parts, colour scales and caption, in the size of a preset.

On paper the width is fixed and the height follows; on a slide the type shrinks until all parts fit.
Places are computed here: matplotlib's constrained layout needs a height, which a figure on paper
does not have, and takes two to three times as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from math import ceil

from matplotlib.figure import Figure

from figures.exhibit import Exhibit, Graph, Lines, Panel, Series
from figures.paper.parts import ColourBar, Colours, Matrix, Plot, cell_size
from figures.paper.presets import POINTS, Preset
from figures.paper.style import SPACING, Sheet, fitted, label, width, wrapped
from figures.paper.tree import Sentences, Tree

_PAGE = 9.0 * POINTS  # height of a printed page between margins
_MANY = 6  # more parts form a grid with fixed rows
_LEAST_CELL = 0.62  # least cell width of matrices side by side, in type sizes
_PLOT = 17  # minimum width of a plot, in type sizes
_WIDE = 2.5  # largest width of a cell that fills the height, in heights
_SHRINK, _LEAST = 0.92, 3.0  # factor of the type size per attempt on a slide, and minimum size

Part = Panel | Series


def drawn(exhibit: Exhibit, preset: Preset, number: str = "") -> Figure:
    """Return the figure; draw and save it within `style`.

    Args: number: of a page of notes, where each fact begins a line.
    """
    facts = [f"{name}: {fact}" for name, fact in exhibit.facts.items()] if number else []
    texts = (exhibit.title, *(facts or [exhibit.legend])) if preset.titled else ("",)
    words, *legend = (text and label(text, 2_000) for text in texts)
    title = wrapped(words, preset.title, preset.room, bold=True)
    caption = [line for text in legend for line in wrapped(text, preset.text, preset.room)]
    gap = 0.8 * preset.text
    above = preset.margin + SPACING * preset.title * len(title) + gap * bool(title)
    below = preset.margin + SPACING * preset.text * len(caption) + gap * bool(caption)
    height = preset.height * POINTS
    room, small = (height - above - below if height else _PAGE), preset
    while True:
        blocks = _blocks(exhibit, small, room)
        tall = _stacked(blocks, small)
        if not height or tall <= room + 0.01 or small.text <= _LEAST:
            break
        less = {name: _SHRINK * getattr(small, name) for name in ("text", "small", "cell")}
        small = replace(small, **less)
    height = height or above + tall + below
    sheet = Sheet(preset, height)
    sheet.write(title, preset.margin, preset.title, weight="bold")
    sheet.write(caption, height - below + gap, preset.text)
    sheet.write([number], preset.margin, preset.text, preset.room - width(number, preset.text),
                color=preset.chrome.muted)  # fmt: skip
    y = above + (height - above - below - tall) / 2
    for block in blocks:
        block.draw(sheet, y)
        y += block.height + _gap(small)
    return sheet.figure


def _gap(preset: Preset) -> float:
    return (0.9 if preset.height else 1.8) * preset.small  # a slide is short


def _stacked(blocks: Sequence[Block], preset: Preset) -> float:
    return sum(block.height + _gap(preset) for block in blocks) - _gap(preset)


def _blocks(exhibit: Exhibit, preset: Preset, room: float) -> list[Block]:
    """Return the blocks from top to bottom: trees, sentences or rows, then colour scales."""
    if graphs := [part for part in exhibit.parts if isinstance(part, Graph)]:
        trees = [Tree(graph, preset) for graph in graphs]
        return [tree if tree.height <= room else Tree(graph, preset, numbered=False)
                for tree, graph in zip(trees, graphs, strict=True)]  # fmt: skip
    if texts := [part for part in exhibit.parts if isinstance(part, Lines)]:
        return [Sentences(part, preset, room / len(texts)) for part in texts]
    colours = Colours([part for part in exhibit.parts if isinstance(part, Panel)], preset)
    rows = _rows(exhibit, preset)
    blocks: list[Block] = [*rows, *(ColourBar(*ends, preset) for ends in colours.ends.items())]
    share = (room - _stacked(blocks, preset)) / len(rows)
    for row in rows:
        row.place(max(share, 4 * preset.small, *row.labelled), colours)
    return blocks


def _rows(exhibit: Exhibit, preset: Preset) -> list[_Row]:
    count, slide = len(exhibit.parts), bool(preset.height)
    # A slide is wide: few parts are side by side on it.
    columns = 0 if slide and count <= _MANY else exhibit.columns
    columns = columns or (count if count <= (4 if slide else 3) else ceil(count**0.5))
    rows: list[_Row] = []
    above: Sequence[Part] = ()
    for start in range(0, count, columns):
        parts = exhibit.parts[start : start + columns]
        if slide:
            rows.append(_Row(parts, above, preset))
        else:  # on paper a row has one kind of part
            for _, some in groupby(parts, key=type):
                rows += _fitting(tuple(some), above, preset)
        above = parts if count > _MANY else ()
    return rows


def _fitting(parts: Sequence[Part], above: Sequence[Part], preset: Preset) -> list[_Row]:
    """Return as few rows as legible cells or plots allow."""
    for columns in range(len(parts), 0, -1):
        rows = [_Row(parts[start : start + columns], above, preset)
                for start in range(0, len(parts), columns)]  # fmt: skip
        if cell := min(row.cell for row in rows):
            wide = cell >= min(preset.cell, _LEAST_CELL * preset.small) or len(parts) > 3
        else:
            wide = preset.room / columns >= _PLOT * preset.small
        if wide or columns == 1:
            break
        above = ()
    for row in rows:
        row.cell = cell  # one size in all rows
    return rows


class _Row:
    """Parts side by side: matrices with one cell size, and plots in the remaining width.

    Attributes:
        cell: largest cell width; 0 without matrices.
    """

    def __init__(self, parts: Sequence[Part], above: Sequence[Part], preset: Preset) -> None:
        self.preset, size, n = preset, preset.small, len(parts)
        most = (0.3, 0.24, 0.18)[min(n, 3) - 1] * preset.room
        plain = all(isinstance(part, Series) for part in parts)
        self.gap = (3 if plain else 0.7 if n > 3 else 2) * size if n > 1 else 0.0
        room = preset.room - self.gap * (n - 1)
        over = (*above, *[None] * n)
        self.parts: list[Matrix | Plot] = [
            Plot(part, preset, room / n) if isinstance(part, Series)
            else Matrix(part, left, up, preset, most)
            for part, left, up in zip(parts, (None, *parts), over, strict=False)
        ]  # fmt: skip
        columns = sum(part.m for part in self.parts)
        room -= sum(part.left + part.across for part in self.parts)
        self.cell = min(preset.cell, room / columns) if columns else 0.0
        self.titles = self._titles(self.cell, 3)
        self.lines = max(map(len, self.titles))
        self.labelled = [part.labelled for part in self.parts if preset.height]
        labels = max(part.m and part.top for part in self.parts)
        for part in self.parts:
            part.top = labels if part.m else part.top

    @property
    def height(self) -> float:
        """The height of titles, labels and, after `place`, the parts."""
        tallest = max(part.top + part.high + part.bottom for part in self.parts)
        return self.lines * SPACING * self.preset.text + tallest

    def _titles(self, cell: float, most: int) -> list[list[str]]:
        """Return the title lines of the parts: the short title if the long one needs several."""
        titles = []
        for part in self.parts:
            size, room = self.preset.text, part.across + part.m * cell
            if len(self.parts) == 1:
                room = self.preset.room - part.left
            lines = wrapped(label(part.part.title, 200), size, room) if part.part.title else []
            if isinstance(part, Matrix) and part.part.short and len(lines) > 1:
                lines = [fitted(part.part.short, size, room)]
            if len(lines) > most:
                lines = [*lines[: most - 1], fitted(" ".join(lines[most - 1 :]), size, room)]
            titles.append(lines)
        return titles

    def place(self, most: float, colours: Colours) -> None:
        """Choose sizes for a height of at most `most`, without titles and labels."""
        self.colours, size, wide, tall = colours, self.preset.small, 0.0, 0.0
        if shapes := [(part.n, part.m) for part in self.parts if isinstance(part, Matrix)]:
            high = min(self.preset.cell, max(most, size) / max(n for n, _ in shapes))
            wide, tall = cell_size(shapes, self.cell, high, size)
            if self.preset.height:  # a slide is filled
                wide, tall = min(self.cell, _WIDE * high), high
            self.titles = self._titles(wide, max(1, self.lines))
        for part in self.parts:
            part.wide = part.across + part.m * wide
            part.high = part.n * tall if isinstance(part, Matrix) else part.tall(most)

    def draw(self, sheet: Sheet, y: float) -> None:
        """Draw on a sheet at height `y`."""
        text, spare = self.preset.text, self.preset.room - self.gap * (len(self.parts) - 1)
        spare -= sum(part.left + part.wide for part in self.parts)
        x = max(0.0, spare / 2) if self.preset.height else 0.0  # a slide is wide
        top = y + SPACING * text * self.lines
        for part, lines in zip(self.parts, self.titles, strict=True):
            x += part.left
            sheet.write(lines, top - SPACING * text * len(lines), text, x)
            ax = sheet.axes(x, top + part.top, part.wide, part.high)
            if isinstance(part, Matrix):
                part.draw(ax, part.wide + 0.8 * self.gap, self.colours)
            else:
                part.draw(ax)
            x += part.wide + self.gap


Block = _Row | ColourBar | Sentences | Tree
