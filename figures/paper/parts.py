"""Parts of a figure as matplotlib axes: matrices, and series as lines, bars or points.

Small matrices have editable cells, large ones are pictures. Panels in a row have one cell size, and
omit the labels of their neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator, ScalarFormatter
from numpy.typing import NDArray

from figures import palette
from figures.exhibit import Panel, Scale, Series
from figures.labels import decimal
from figures.paper.presets import Preset
from figures.paper.style import SPACING, Sheet, fitted, label, width, wrapped

_APART = 1.05  # label distance, in type sizes
_LEAST_LABEL = 0.65  # of a slide's labels, in type sizes
_LABELLED = 20  # rows of which every second has a label
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
        self.left = self.left if self.rows else 0.0
        self.top = self.top if self.columns else 0.4 * size
        #: height for every second label, on a slide
        self.labelled = min(self.n, _LABELLED) * _APART * self.least / 2 if self.rows else 0.0

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
            size = min(small, max(cell / _APART, self.least))  # smaller rather than left out
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
            pixels = palette.attention_table(self.theme)[palette.weight_levels(values)]
        else:
            end = self.ends.get(_scale(panel)) or 1.0
            levels = np.clip(np.rint(np.nan_to_num((values / end + 1) / 2 * 255)), 0, 255)
            pixels = palette.signed_table(self.theme)[levels.astype(np.uint8)]
        known = np.where(np.isnan(values), 0, 255).astype(np.uint8)
        return np.concatenate([pixels, known[..., None]], axis=-1)


class ColourBar:
    """A colour scale as a bar with its name beside it."""

    def __init__(self, scale: tuple[Scale, str], end: float, preset: Preset) -> None:
        self.preset, size, name = preset, preset.small, scale[1]
        if scale[0] == "attention":
            name, self.table = (
                f"{name}: {palette.scale_words(preset.theme)}",
                palette.attention_table(preset.theme),
            )
            self.ticks = {value**0.5: f"{value:g}" for value in palette.WEIGHT_TICKS}
        else:
            self.table = palette.signed_table(preset.theme)
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
    """Reduce to at most `_MOST_SIDE` per side: each block keeps the value farthest from 0."""
    for axis, size in enumerate(values.shape):
        if size > _MOST_SIDE:
            starts = np.arange(_MOST_SIDE) * size // _MOST_SIDE
            most = np.fmax.reduceat(values, starts, axis=axis)
            least = np.fmin.reduceat(values, starts, axis=axis)
            values = np.where(np.abs(least) > np.abs(most), least, most)
    return values


_MOST_MARKED = 60  # lines with more points have no dots
_MOST_NUMBERED = 12  # bars with their numbers on top
_SLOPE, _TALL = 0.5, 16  # largest height: share of the width, and in type sizes


class Plot:
    """A series with room for ticks, titles and legend, in points."""

    m = 0  # no matrix columns
    wide = high = labelled = 0.0

    def __init__(self, series: Series, preset: Preset, room: float) -> None:
        self.part, self.preset, size = series, preset, preset.small
        self.y_ticks, self.y_labels = _ticks(*self._range())
        self.left = width(self.y_labels, size) + (2.1 if series.y_title else 0.6) * size
        self.across = room - self.left - 0.5 * size
        named = isinstance(series.x, tuple) or series.mark == "bar"
        self.x_labels = [
            fitted(label(value if isinstance(value, str) else f"{value:g}"), size, 12 * size)
            for value in series.x
        ] if named else []  # fmt: skip
        wide = width(self.x_labels, size)
        self.upright = named and wide + 0.5 * size > self.across / len(series.x)
        self.bottom = (wide if self.upright else 1.2 * size) + (2 if series.x_title else 0.7) * size
        names = [label(name, 40) for name in series.lines]
        fit = int(self.across / (width(names, size) + 3 * size))
        self.columns = min(len(names), max(1, fit))  # of the legend
        self.numbered = series.mark == "bar" and len(names) == 1 and len(series.x) <= _MOST_NUMBERED
        legend = 1.45 * ceil(len(names) / self.columns) if len(names) > 1 else 0
        self.top = (0.6 + self.numbered + legend) * size

    def _range(self) -> tuple[float, float]:
        values = np.concatenate([np.ravel(line) for line in self.part.lines.values()])
        known = values[~np.isnan(values)].astype(np.float64)
        low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
        high = max(high, self.part.most)
        if self.part.mark == "bar" or 0 < low < 0.4 * high:
            low, high = min(low, 0.0), max(high, 0.0)
        spare = (abs(low) or 1) / 2 if low == high else 0
        return low - spare, high + spare

    def tall(self, most: float) -> float:
        """Return the height, at most `most`."""
        return min(most, _SLOPE * self.across, _TALL * self.preset.text)

    def draw(self, ax: Axes) -> None:
        """Draw on axes of its size."""
        series, small, unit = self.part, self.preset.small, self.preset.text / 8
        n, count = len(series.x), len(series.lines)
        x = np.arange(n) if self.x_labels else np.asarray(series.x, np.float64)
        dotted = series.mark == "point" or (series.mark == "line" and n <= _MOST_MARKED)
        for index, ((name, values), colour) in enumerate(
            zip(series.lines.items(), palette.categorical(count, self.preset.theme), strict=True)
        ):
            known = ~np.isnan(values)
            look: dict[str, Any] = {"label": label(name, 40), "color": colour}
            if series.mark == "bar":
                if not known.any():  # the legend needs a bar to have its colour
                    known[:1], values = True, np.zeros(n)
                place = x[known] + (index - (count - 1) / 2) * 0.8 / count
                bars = ax.bar(place, values[known], 0.8 / count, **look)
                if self.numbered:
                    ax.bar_label(bars, [*map(_written, values[known])], size=small)
            else:
                ax.plot(x[known], values[known], "-" if series.mark == "line" else "",
                        marker="o" if dotted else "", markeredgewidth=0, linewidth=unit,
                        markersize=(2.6 if series.mark == "line" else 4) * unit,
                        clip_on=bool(self.x_labels), **look)  # fmt: skip
        ax.set_ylim(self.y_ticks[0], self.y_ticks[-1])
        ax.set_yticks(self.y_ticks, self.y_labels, size=small)
        if self.x_labels:
            every = ceil(1.05 * small * n / self.across) if self.upright else 1
            ax.set_xlim(-0.5, n - 0.5)
            ax.set_xticks(range(0, n, every), self.x_labels[::every], size=small,
                          rotation=90 if self.upright else 0)  # fmt: skip
        else:
            low, high = float(x.min()), float(x.max())
            high = high if high > low else low + 1
            for most in range(6, 1, -1):
                ticks = {at: word for at, word in zip(*_ticks(low, high, most), strict=True)
                         if low - 1e-9 <= at <= high + 1e-9}  # fmt: skip
                if len(ticks) * (width([*ticks.values()], small) + 0.6 * small) < self.across:
                    break
            ax.set_xticks(list(ticks), list(ticks.values()), size=small)
            ax.set_xlim(low, high)
        ax.tick_params(pad=0.35 * small)
        ax.grid(axis="y")
        ax.spines[:].set_visible(False)
        tall = ax.bbox.height + 2 * small
        for name, write, room in (
            (series.x_title, ax.set_xlabel, self.across), (series.y_title, ax.set_ylabel, tall)
        ):  # fmt: skip
            write(name and fitted(label(name, 80), small, room), labelpad=0.3 * small)
        if count > 1:
            ax.legend(
                loc="lower left", bbox_to_anchor=(0, 1), ncols=self.columns, frameon=False,
                fontsize=small, borderaxespad=0.2, borderpad=0, columnspacing=1,
                labelspacing=0.25, handlelength=1.3, handletextpad=0.5,
            )  # fmt: skip


def _written(value: float) -> str:
    return (
        f"{value:,.{max(0, 3 - len(str(int(abs(value)))))}f}"
        if abs(value) >= 1
        else decimal(value, 3)
    )


def _ticks(low: float, high: float, most: int = 6) -> tuple[list[float], list[str]]:
    ticks = np.round(MaxNLocator(most, steps=[1, 2, 5, 10]).tick_values(low, high), 12) + 0.0
    formatter = ScalarFormatter(useOffset=False)
    formatter.set_scientific(False)
    return ticks.tolist(), formatter.format_ticks(ticks.tolist())
