"""Matrices as matplotlib axes: small ones as cells, which a vector program can edit, else pictures.

A row of panels shares the size of its cells, and labels that a panel's neighbour already has are
left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from figures.exhibit import Panel
from figures.palette import (
    WEIGHT_TICKS,
    attention_table,
    scale_words,
    signed_table,
    weight_levels,
)
from figures.paper.presets import Preset
from figures.paper.style import fitted, label, note, widest, width

_APART = 1.05  # distance of labels in sizes of their type
_MOST_SIDE = 512  # pixels of a picture before it is enlarged
_LONG = 3  # matrices with sides of this ratio may have cells that are no squares
_STRETCH = 2.5  # how much longer such a cell may be


class Matrix:
    """A panel with the room of its labels.

    Attributes:
        left, top: room for the labels, in points.
    """

    bottom = 0.0

    def __init__(
        self, panel: Panel, before: Panel | None, above: Panel | None, preset: Preset, most: float
    ) -> None:
        """Args: before, above: neighbours.  most: width of the labels on the left."""
        self.panel, self.preset, size = panel, preset, preset.small
        self.rows = [] if before and before.rows == panel.rows else list(map(label, panel.rows))
        same = above and above.columns == panel.columns
        self.columns = [] if same else list(map(label, panel.columns))
        self.rows = [fitted(each, size, most) for each in self.rows]
        self.left = self.top = 0.0
        if self.rows:
            self.left = widest(self.rows, size) + 0.5 * size
            self.left += 1.5 * size if panel.row_title else 0
        if self.columns:
            self.top = widest(self.columns, size) + 0.5 * size
            self.top += 1.3 * size if panel.column_title else 0

    @property
    def shape(self) -> tuple[int, int]:
        """Return the number of rows and columns."""
        n, m = self.panel.values.shape
        return n, m

    def draw(self, ax: Axes, size: tuple[float, float], room: float, colours: Colours) -> None:
        """Args: size: of the axes in points.  room: width for the column's title."""
        panel, small = self.panel, self.preset.small
        n, m = self.shape
        pixels = colours.of(panel)
        if colours.shapes:
            edges = np.arange(m + 1), np.arange(n + 1)
            ax.pcolormesh(*edges, pixels, antialiased=False, edgecolors="none", linewidth=0)
        else:
            ax.imshow(pixels, extent=(0, m, n, 0), aspect="auto", interpolation="nearest")
        ax.set(xlim=(0, m), ylim=(n, 0))
        ax.xaxis.tick_top()
        for axis, labels, cell in (
            (ax.xaxis, self.columns, size[0] / m),
            (ax.yaxis, self.rows, size[1] / n),
        ):
            shown = range(0, len(labels), ceil(_APART * small / cell))
            axis.set_ticks([at + 0.5 for at in shown], [labels[at] for at in shown], size=small)
            axis.set_tick_params(length=0, pad=0.25 * small)
        ax.tick_params(axis="x", labelrotation=90)
        above, beside = (
            label(title, 60) if title else "" for title in (panel.column_title, panel.row_title)
        )
        if self.columns and width(above, small) <= room:
            note(ax, above, (0, 1), (0, self.top - 1.2 * small), self.preset, va="bottom")
        if self.rows and width(beside, small) <= size[1] + 0.1:
            note(ax, beside, (0, 0.5), (-self.left, 0), self.preset, rotation=90, va="center")


def cell_size(
    shapes: Sequence[tuple[int, int]], wide: float, tall: float, size: float
) -> tuple[float, float]:
    """Return width and height of a cell: squares, unless a matrix is much longer than wide.

    Args:
        shapes: of all matrices.  wide, tall: the largest a cell may be.
        size: of labels, which may make a cell a bit taller than wide so that every row keeps its.
    """
    n, m = (max(sides) for sides in zip(*shapes, strict=True))
    stretch = _STRETCH if max(n, m) > _LONG * min(n, m) else 1.0
    least, apart = min(wide, tall), _APART * size
    high = min(apart, tall) if 0.7 * apart <= wide < apart else stretch * least
    return min(wide, stretch * least), min(tall, max(high, least))


class Colours:
    """The colours of a figure's matrices.

    Attributes:
        shapes: draw cells as shapes.
    """

    def __init__(self, panels: Sequence[Panel], preset: Preset, most_shapes: int) -> None:
        self.preset = preset
        self.shapes = sum(panel.values.size for panel in panels) <= most_shapes
        self.weights = list(dict.fromkeys(
            panel.quantity or "weight" for panel in panels if panel.scale == "attention"
        ))  # fmt: skip
        self.limits: dict[str, float] = {}  # end of the diverging scale of each quantity
        for panel in panels:
            if panel.scale == "diverging" and not np.isnan(panel.values).all():
                peak = float(np.nanmax(np.abs(panel.values)))
                self.limits[panel.quantity] = max(peak, self.limits.get(panel.quantity, 0.0))

    def of(self, panel: Panel) -> NDArray[np.uint8]:
        """Return a matrix as pixels, [n, m, 4]; missing values are transparent."""
        values = np.asarray(panel.values, dtype=np.float64)
        values = values if self.shapes else pooled(values)
        if panel.scale == "attention":
            pixels = attention_table(self.preset.theme)[weight_levels(values)]
        else:
            limit = self.limits.get(panel.quantity) or 1.0
            levels = np.clip(np.rint(np.nan_to_num((values / limit + 1) / 2 * 255)), 0, 255)
            pixels = signed_table(self.preset.theme)[levels.astype(np.uint8)]
        known = np.where(np.isnan(values), 0, 255).astype(np.uint8)
        return np.concatenate([pixels, known[..., None]], axis=-1)

    def scales(self) -> list[tuple[str, NDArray[np.uint8], dict[float, str]]]:
        """Return each scale: its name, its colours, and its ticks from 0 to 1."""
        theme = self.preset.theme
        ticks = {value**0.5: f"{value:g}" for value in WEIGHT_TICKS}
        return [
            *((f"{name}: {scale_words(theme)}", attention_table(theme), ticks)
              for name in self.weights),
            *((name or "value", signed_table(theme),
               {0.0: f"−{limit:.3g}", 0.5: "0", 1.0: f"{limit:.3g}"})
              for name, limit in self.limits.items()),
        ]  # fmt: skip


def pooled(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Reduce to at most `_MOST_SIDE` per side: the value farthest from 0 of each block."""
    for axis, size in enumerate(values.shape):
        if size > _MOST_SIDE:
            starts = np.arange(_MOST_SIDE) * size // _MOST_SIDE
            most = np.fmax.reduceat(values, starts, axis=axis)
            least = np.fmin.reduceat(values, starts, axis=axis)
            values = np.where(np.abs(least) > np.abs(most), least, most)
    return values
