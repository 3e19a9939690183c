"""Matrices as matplotlib axes: small ones as editable cells, large ones as pictures.

Panels in a row have one cell size, and omit the labels of their neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from figures.exhibit import Panel, Scale
from figures.palette import WEIGHT_TICKS, attention_table, scale_words, signed_table, weight_levels
from figures.paper.presets import Preset
from figures.paper.style import SPACING, Sheet, fitted, label, width, wrapped

_APART = 1.05  # label distance, in type sizes
_LEAST_LABEL = 0.65  # of a slide's labels, in type sizes
_CELLS_AS_SHAPES = 2_500  # matrices with more cells become pictures
_MOST_SIDE = 512  # pixels of a picture before enlargement
#: Matrices with an aspect ratio above `_LONG` may have cells with one of up to `_STRETCH`.
_LONG, _STRETCH = 3, 2.5


class Matrix:
    """A panel with room for labels on the left and on top, in points."""

    across = bottom = wide = high = 0.0

    def __init__(
        self, panel: Panel, before: object, above: object, preset: Preset, most: float
    ) -> None:
        """Args: before, above: neighbours.  most: largest width of row labels."""
        self.part, self.preset, size = panel, preset, preset.small
        self.least = (_LEAST_LABEL if preset.height else 1) * size
        self.n, self.m = len(panel.rows), len(panel.columns)
        self.rows = [fitted(label(token), size, most) for token in panel.rows]
        self.columns = [label(token) for token in panel.columns]
        if isinstance(before, Panel) and before.rows == panel.rows:
            self.rows = []
        if isinstance(above, Panel) and above.columns == panel.columns:
            self.columns = []
        self.left = width(self.rows, size) + (2 if panel.row_title else 0.5) * size
        self.top = width(self.columns, size) + (1.8 if panel.column_title else 0.5) * size
        self.left, self.top = self.left if self.rows else 0.0, self.top if self.columns else 0.0

    def draw(self, ax: Axes, room: float, colours: Colours) -> None:
        """Draw on axes of the matrix's size; `room` is the width for the column title."""
        n, m, small, pixels = self.n, self.m, self.preset.small, colours.of(self.part)
        if colours.shapes:
            edges = np.arange(m + 1), np.arange(n + 1)
            ax.pcolormesh(*edges, pixels, antialiased=False, edgecolors="none", linewidth=0)
        else:
            ax.imshow(pixels, extent=(0, m, n, 0), aspect="auto", interpolation="nearest")
        ax.set(xlim=(0, m), ylim=(n, 0))
        chrome = self.preset.chrome
        if (gaps := np.argwhere(np.isnan(self.part.values))).size:  # missing is not 0
            ax.patch.set(
                facecolor=chrome.rule, edgecolor=self.preset.paper, hatch="//", linewidth=0
            )
            y, x = gaps.mean(axis=0) + 0.5
            ax.text(x, y, self.part.missing, size=small, ha="center", va="center", color=chrome.ink,
                    bbox={"facecolor": self.preset.paper, "edgecolor": "none"})  # fmt: skip
        for row, column in enumerate(self.part.rings):
            for colour, line in ((self.preset.paper, 0.28), (chrome.ink, 0.14)):
                ax.add_patch(Rectangle((column, row), 1, 1, fill=False, edgecolor=colour, zorder=3,
                                       linewidth=line * small, clip_on=False))  # fmt: skip
        ax.xaxis.tick_top()
        for axis, labels, cell in (
            (ax.xaxis, self.columns, ax.bbox.width / m),
            (ax.yaxis, self.rows, ax.bbox.height / n),
        ):
            size = min(small, max(cell / _APART, self.least))  # rather smaller than left out
            visible = range(0, len(labels), ceil(_APART * size / cell - 1e-6))
            axis.set_ticks([at + 0.5 for at in visible], [labels[at] for at in visible], size=size)
            axis.set_tick_params(pad=0.25 * small)
        ax.tick_params(axis="x", labelrotation=90)
        titles = (self.part.column_title, self.part.row_title)
        above, beside = (label(title, 60) if title else "" for title in titles)
        if self.columns and width(above, small) <= room:  # at one height in a row
            ax.annotate(above, (0, 1), (0, self.top - 1.2 * small), "axes fraction",
                        "offset points", color=chrome.muted, size=small)  # fmt: skip
        if self.rows and width(beside, small) <= ax.bbox.height + 0.1:
            ax.set_ylabel(beside, labelpad=0.3 * small)


def cell_size(
    shapes: Sequence[tuple[int, int]], wide: float, tall: float, size: float
) -> tuple[float, float]:
    """Return width and height of a cell: square, unless a matrix is much longer than wide.

    Args:
        shapes: shapes of all matrices.  wide, tall: largest cell size.
        size: type size of labels; cells grow a little taller to fit one label per row.
    """
    n, m = (max(sides) for sides in zip(*shapes, strict=True))
    stretch = _STRETCH if max(n, m) > _LONG * min(n, m) else 1.0
    least, apart = min(wide, tall), _APART * size
    high = min(apart, tall) if 0.7 * apart <= wide < apart else stretch * least
    return min(wide, stretch * least), min(tall, max(high, least))


class Colours:
    """The colours of a figure's matrices, as shapes or as pictures."""

    def __init__(self, panels: Sequence[Panel], preset: Preset) -> None:
        self.theme = preset.theme
        self.shapes = sum(panel.values.size for panel in panels) <= _CELLS_AS_SHAPES
        self.ends: dict[tuple[Scale, str], float] = {}  # scale ends by quantity
        for panel in panels:
            key, known = _scale(panel), np.abs(panel.values[~np.isnan(panel.values)])
            if panel.scale == "attention":
                self.ends[key] = 1.0
            elif known.size:
                self.ends[key] = max(float(known.max()), self.ends.get(key, 0.0))

    def of(self, panel: Panel) -> NDArray[np.uint8]:
        """Return a matrix as pixels, [n, m, 4]; missing values are transparent."""
        values = np.asarray(panel.values, dtype=np.float64)
        values = values if self.shapes else pooled(values)
        if panel.scale == "attention":
            pixels = attention_table(self.theme)[weight_levels(values)]
        else:
            end = self.ends.get(_scale(panel)) or 1.0
            levels = np.clip(np.rint(np.nan_to_num((values / end + 1) / 2 * 255)), 0, 255)
            pixels = signed_table(self.theme)[levels.astype(np.uint8)]
        known = np.where(np.isnan(values), 0, 255).astype(np.uint8)
        return np.concatenate([pixels, known[..., None]], axis=-1)


class ColourBar:
    """A colour scale as a bar with its name beside it."""

    def __init__(self, scale: tuple[Scale, str], end: float, preset: Preset) -> None:
        self.preset, size, name = preset, preset.small, scale[1]
        if scale[0] == "attention":
            name, self.table = f"{name}: {scale_words(preset.theme)}", attention_table(preset.theme)
            self.ticks = {value**0.5: f"{value:g}" for value in WEIGHT_TICKS}
        else:
            self.table = signed_table(preset.theme)
            self.ticks = {0: f"−{end:.3g}", 0.5: "0", 1: f"{end:.3g}"}
        self.inset, self.bar = 1.8 * size, min(0.3 * preset.room, 16 * size)
        self.right = self.inset + self.bar + 1.5 * size
        self.lines = wrapped(name, size, preset.room - self.right)
        self.height = max(2.3, len(self.lines) * SPACING) * size

    def draw(self, sheet: Sheet, y: float) -> None:
        """Draw on a sheet at height `y`."""
        size, muted = self.preset.small, self.preset.chrome.muted
        ax = sheet.axes(self.inset, y, self.bar, 0.9 * size)
        ax.imshow(self.table[None], extent=(0, 1, 0, 1), aspect="auto", interpolation="nearest")
        ax.set_yticks([])
        ax.set_xticks([*self.ticks], [*self.ticks.values()], size=size)
        ax.tick_params(length=0.25 * size, width=0.5, color=muted, pad=0.2 * size)
        sheet.write(self.lines, y - 0.2 * size, size, self.right)


def _scale(panel: Panel) -> tuple[Scale, str]:
    return panel.scale, panel.quantity or ("weight" if panel.scale == "attention" else "value")


def pooled(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Reduce to at most `_MOST_SIDE` per side: of each block the value farthest from 0."""
    for axis, size in enumerate(values.shape):
        if size > _MOST_SIDE:
            starts = np.arange(_MOST_SIDE) * size // _MOST_SIDE
            most = np.fmax.reduceat(values, starts, axis=axis)
            least = np.fmin.reduceat(values, starts, axis=axis)
            values = np.where(np.abs(least) > np.abs(most), least, most)
    return values
