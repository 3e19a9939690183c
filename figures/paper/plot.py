"""Lines, bars and points as matplotlib axes."""

from math import ceil
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, ScalarFormatter

from figures.exhibit import Series
from figures.labels import decimal
from figures.palette import categorical
from figures.paper.presets import Preset
from figures.paper.style import fitted, label, width

_MOST_MARKED = 60  # lines with more points have no dots
_MOST_NUMBERED = 12  # bars with their numbers on top
_SLOPE, _TALL = 0.5, 16  # largest height: share of the width, and in type sizes


class Plot:
    """A series with room for ticks, titles and legend, in points."""

    m = 0  # no matrix columns
    wide = high = 0.0

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
            zip(series.lines.items(), categorical(count, self.preset.theme), strict=True)
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
