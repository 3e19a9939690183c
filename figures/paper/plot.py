"""Lines, bars and points as matplotlib axes."""

from __future__ import annotations

from math import ceil, floor, log10
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from figures.exhibit import Series
from figures.numbers import signed
from figures.palette import categorical
from figures.paper.presets import Preset
from figures.paper.style import fitted, label, note, widest

_MOST_MARKED = 60  # lines of more points have no dots


class Plot:
    """A series with the room of its labels.

    Attributes:
        left, top, bottom: room for ticks, titles and the legend, in points.
    """

    def __init__(self, series: Series, preset: Preset, room: float) -> None:
        self.series, self.preset, size = series, preset, preset.small
        self.y_ticks = self._y_ticks()
        step = self.y_ticks[1] - self.y_ticks[0]
        digits = min(8, max(0, -floor(log10(step) + 1e-9)))
        tiny = max(map(abs, self.y_ticks)) < 1e-3
        self.y_labels = [
            f"{value:.1g}" if tiny else signed(value, digits) for value in self.y_ticks
        ]
        self.left = widest(self.y_labels, size) + (2.1 if series.y_title else 0.6) * size
        self.across = room - self.left - 0.5 * size
        self.x_labels = self._x_labels()
        wide = widest(self.x_labels, size)
        self.upright = wide + 0.5 * size > self.across / len(series.x)
        under = min(wide, 12 * size) if self.upright else 1.2 * size
        self.bottom = under + (1.8 if series.x_title else 0.7) * size
        self.columns = 0  # of the legend
        self.top = 0.6 * size
        if len(series.lines) > 1:
            entry = widest([label(each, 40) for each in series.lines], size) + 3 * size
            self.columns = max(1, min(len(series.lines), int(self.across / entry)))
            self.top += 1.45 * size * ceil(len(series.lines) / self.columns)

    def _y_ticks(self) -> list[float]:
        values = np.concatenate([np.ravel(each) for each in self.series.lines.values()])
        known = values[~np.isnan(values)].astype(np.float64)
        low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
        if self.series.mark == "bar" or 0 < low < 0.4 * high:
            low, high = min(low, 0.0), max(high, 0.0)
        if low == high:
            low, high = low - (abs(low) or 1) / 2, high + (abs(high) or 1) / 2
        ticks = MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(low, high)
        return [float(each) for each in np.round(ticks, 12)]

    def _x_labels(self) -> list[str]:
        """Return the labels of places in equal steps; none for an axis of numbers."""
        if isinstance(self.series.x, tuple):
            return [label(each) for each in self.series.x]
        if self.series.mark == "bar":
            return [f"{value:g}" for value in self.series.x.tolist()]
        return []

    def draw(self, ax: Axes, size: tuple[float, float]) -> None:
        """Args: size: of the axes in points."""
        series, small, unit = self.series, self.preset.small, self.preset.text / 8
        n, count = len(series.x), len(series.lines)
        x = np.arange(n) if self.x_labels else np.asarray(series.x, np.float64)
        colours = categorical(count, self.preset.theme)
        dots = {
            "marker": "o",
            "markeredgewidth": 0,
            "markersize": (2.6 if series.mark == "line" else 4) * unit,
        }
        for index, ((name, values), colour) in enumerate(
            zip(series.lines.items(), colours, strict=True)
        ):
            known = ~np.isnan(values)
            drawn: dict[str, Any] = {"label": label(name, 40), "color": colour}
            if series.mark == "bar":
                place = x[known] + (index - (count - 1) / 2) * 0.8 / count
                ax.bar(place, values[known], 0.8 / count, **drawn)
            else:
                if series.mark == "point" or n <= _MOST_MARKED:
                    drawn |= dots
                line = "-" if series.mark == "line" else "none"
                ax.plot(x[known], values[known], linestyle=line, linewidth=unit, **drawn)
        ax.set_ylim(self.y_ticks[0], self.y_ticks[-1])
        ax.set_yticks(self.y_ticks, self.y_labels, size=small)
        if self.x_labels:
            every = ceil(1.05 * small * n / size[0]) if self.upright else 1
            shown = range(0, n, every)
            ax.set_xlim(-0.5, n - 0.5)
            words = [fitted(self.x_labels[at], small, 12 * small) for at in shown]
            ax.set_xticks(shown, words, size=small, rotation=90 if self.upright else 0)
        else:
            low, high = float(x.min()), float(x.max())
            ax.set_xlim(low, high if high > low else low + 1)
            ticks = [at for at in MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(low, high)
                     if low - 1e-9 <= at <= high + 1e-9]  # fmt: skip
            ax.set_xticks(ticks, [f"{at:.6g}".replace("-", "−") for at in ticks], size=small)
            for curve in ax.lines:
                curve.set_clip_on(False)
        ax.tick_params(length=0, pad=0.35 * small)
        ax.grid(axis="y")
        ax.spines[:].set_visible(False)
        if series.x_title:
            title, off = (
                fitted(label(series.x_title, 80), small, size[0]),
                0.3 * small - self.bottom,
            )
            note(ax, title, (0.5, 0), (0, off), self.preset, ha="center", va="bottom")
        if series.y_title:
            title = fitted(label(series.y_title, 80), small, size[1] + 2 * small)
            note(ax, title, (0, 0.5), (-self.left, 0), self.preset, rotation=90, va="center")
        if self.columns:
            ax.legend(
                loc="lower left", bbox_to_anchor=(0, 1), ncols=self.columns, frameon=False,
                fontsize=small, borderaxespad=0.2, borderpad=0, columnspacing=1,
                labelspacing=0.25, handlelength=1.3, handletextpad=0.5,
            )  # fmt: skip
