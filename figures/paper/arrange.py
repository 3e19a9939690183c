"""Where the parts of a figure stand: in rows, as wide as there is room, with one scale each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from math import ceil

import numpy as np

from figures.exhibit import Exhibit, Panel, Series
from figures.graph import Graph
from figures.paper.colours import scales
from figures.paper.matrix import Style, matrix_row
from figures.paper.pen import Block, Row, beside, stacked
from figures.paper.plot import plot_row
from figures.paper.presets import POINTS, Preset
from figures.paper.tree import tree

#: The height of a printed page between its margins, in points.
PAGE = 9.0 * POINTS

_CELLS_AS_SHAPES = 2_500  # matrices with more cells become pictures
_MANY = 6  # more parts than this are a grid, whose rows stay as they are
_LEAST_CELL = 0.62  # of the labels' type; in narrower cells matrices go below each other
_PLOT = 17  # the least width of a plot, in sizes of its labels

Part = Panel | Series


def arranged(exhibit: Exhibit, preset: Preset, room: float, most: float, columns: int = 0) -> Block:
    """Return the parts.

    Args:
        room: their width.  most: the height that there is; 0 on paper.
        columns: parts in a row, if not as the exhibit says.
    """
    gap = 1.8 * preset.small
    trees = [part for part in exhibit.parts if isinstance(part, Graph)]
    if trees:
        return stacked([tree(part, preset, room, most or PAGE) for part in trees], gap)
    panels = [part for part in exhibit.parts if isinstance(part, Panel)]
    limits = _limits(panels)
    style = Style(limits, sum(panel.values.size for panel in panels) <= _CELLS_AS_SHAPES)
    rows: list[Row] = []
    above: Sequence[Panel] = ()
    for parts in _rows(exhibit.parts, columns or exhibit.columns):
        alike = [list(some) for _, some in groupby(parts, key=type)]
        if preset.height:
            free = room - gap * (len(alike) - 1)
            rooms = [free * len(some) / len(parts) for some in alike]
            found = [_row(some, above, preset, wide, style)
                     for some, wide in zip(alike, rooms, strict=True)]  # fmt: skip
            rows.append(beside(found, gap))
        else:
            for some in alike:
                rows += _fitting(some, above, preset, room, style)
        many = len(exhibit.parts) > _MANY
        above = [part for part in parts if isinstance(part, Panel)] if many else ()
    legends = scales(panels, limits, preset, room)
    fixed = sum(row.fixed for row in rows) + sum(each.height for each in legends)
    fixed += gap * (len(rows) + len(legends) - 1)
    share = ((most or PAGE) - fixed) / len(rows)
    least = 4 * preset.small
    return stacked([*(row.build(max(share, least)) for row in rows), *legends], gap)


def _rows(parts: Sequence[Part], columns: int) -> list[Sequence[Part]]:
    count = len(parts)
    if not columns:
        columns = count if count <= 3 else ceil(count**0.5)
    return [parts[start : start + columns] for start in range(0, count, columns)]


def _row(
    parts: Sequence[Part], above: Sequence[Panel], preset: Preset, room: float, style: Style
) -> Row:
    """Return parts of one kind side by side."""
    panels = [part for part in parts if isinstance(part, Panel)]
    if panels:
        return matrix_row(panels, above, preset, room, style)
    return plot_row([part for part in parts if isinstance(part, Series)], preset, room)


def _fitting(
    parts: Sequence[Part], above: Sequence[Panel], preset: Preset, room: float, style: Style
) -> list[Row]:
    """Return the row, or the parts in several rows if there is too little room for one."""
    row = _row(parts, above, preset, room, style)
    if row.cell:
        wide = row.cell >= min(preset.cell, _LEAST_CELL * preset.small) or len(parts) > 3
    else:
        wide = room / len(parts) >= _PLOT * preset.small
    if wide or len(parts) == 1:
        return [row]
    half = ceil(len(parts) / 2)
    halves = (parts[:half], parts[half:])
    rows = [each for some in halves for each in _fitting(some, (), preset, room, style)]
    if row.cell:  # cells of one size in all rows
        preset = replace(preset, cell=min(each.cell for each in rows))
        rows = [each for some in halves for each in _fitting(some, (), preset, room, style)]
    return rows


def _limits(panels: Sequence[Panel]) -> dict[str, float]:
    """Return the end of the diverging scale of each quantity."""
    limits: dict[str, float] = {}
    for panel in panels:
        if panel.scale == "diverging" and not np.isnan(panel.values).all():
            peak = float(np.nanmax(np.abs(panel.values)))
            limits[panel.quantity] = max(peak, limits.get(panel.quantity, 0.0))
    return limits
