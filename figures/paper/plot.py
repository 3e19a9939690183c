"""Lines, bars and points on paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, floor, log10

import numpy as np

from figures.exhibit import Series
from figures.numbers import signed
from figures.palette import categorical
from figures.paper.legend import Sample, legend
from figures.paper.pen import Block, Pen, Row, label, number
from figures.paper.presets import Preset
from figures.paper.text import fitted, width_of, wrapped

_MOST_MARKED = 60  # lines of more points have no dots
_SLOPE, _TALL = 0.5, 16  # height of a plot at most: for its width, and in sizes of type


def plot_row(series: Sequence[Series], preset: Preset, room: float) -> Row:
    """Return plots side by side, equally wide."""
    gap = 3 * preset.small
    wide = (room - gap * (len(series) - 1)) / len(series)
    plots = [_Plot(each, preset, wide) for each in series]
    header = max(plot.above for plot in plots)

    def build(most: float) -> Block:
        tall = min(most, _SLOPE * wide, _TALL * preset.text)

        def draw(pen: Pen, left: float, top: float) -> None:
            for index, plot in enumerate(plots):
                plot.draw(pen, left + index * (wide + gap), top + header - plot.above, tall)

        height = header + tall + max(plot.below for plot in plots)
        return Block(room, height, draw, 0.3 * tall * sum(plot.across for plot in plots))

    return Row(header + max(plot.below for plot in plots), build)


@dataclass(frozen=True)
class _Plot:
    series: Series
    preset: Preset
    room: float

    @property
    def size(self) -> float:
        return self.preset.small

    @property
    def n(self) -> int:
        return len(self.series.x)

    @cached_property
    def labels(self) -> list[str]:
        """Of places that follow each other in steps; empty for an axis of numbers."""
        if isinstance(self.series.x, tuple):
            return [label(each) for each in self.series.x]
        if self.series.mark == "bar":
            return [f"{value:g}" for value in self.series.x.tolist()]
        return []

    @cached_property
    def x_ticks(self) -> list[float]:
        x = np.asarray(self.series.x, dtype=np.float64)
        low, high = float(x.min()), float(x.max())
        return [each for each in ticks(low, high, 6) if low - 1e-9 <= each <= high + 1e-9]

    @cached_property
    def y_ticks(self) -> list[float]:
        values = np.concatenate([np.ravel(each) for each in self.series.lines.values()])
        known = values[~np.isnan(values)].astype(np.float64)
        low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
        if self.series.mark == "bar" or 0 < low < 0.4 * high:
            low, high = min(low, 0.0), max(high, 0.0)
        return ticks(low, high, 7)

    @cached_property
    def y_labels(self) -> list[str]:
        """With as many digits as the distance between two ticks needs."""
        step = self.y_ticks[1] - self.y_ticks[0]
        digits = min(8, max(0, -floor(log10(step) + 1e-9)))
        if max(map(abs, self.y_ticks)) < 1e-3:
            return [f"{value:.1g}" for value in self.y_ticks]
        return [signed(value, digits) for value in self.y_ticks]

    @cached_property
    def names(self) -> Block | None:
        """The legend, for more than one line."""
        lines = list(self.series.lines)
        if len(lines) < 2:
            return None
        colours = categorical(len(lines), self.preset.theme)
        thick = 1.5 if self.series.mark == "line" else 0
        samples = [Sample(label(each, 60), colour, thick)
                   for each, colour in zip(lines, colours, strict=True)]  # fmt: skip
        return legend(samples, self.preset, self.room)

    @cached_property
    def titles(self) -> list[str]:
        return wrapped(label(self.series.title, 200), self.preset.text, self.room)

    @property
    def above(self) -> float:
        names = self.names.height if self.names else 0
        return len(self.titles) * 1.25 * self.preset.text + names + 0.6 * self.size

    @property
    def left(self) -> float:
        """Of the axis: the numbers, and what they are."""
        wide = max(width_of(each, self.size) for each in self.y_labels)
        return wide + 0.6 * self.size + (1.5 * self.size if self.series.y_title else 0)

    @property
    def across(self) -> float:
        return self.room - self.left - 0.5 * self.size

    @cached_property
    def hanging(self) -> bool:
        """Whether labels stand upright because they would touch."""
        if not self.labels:
            return False
        widest = max(width_of(each, self.size) for each in self.labels)
        return widest + 0.5 * self.size > self.across / self.n

    @property
    def under(self) -> float:
        """The height of the labels below the axis."""
        if not self.hanging:
            return 1.3 * self.size
        return min(max(width_of(each, self.size) for each in self.labels), 12 * self.size)

    @property
    def below(self) -> float:
        return self.under + (1.5 * self.size if self.series.x_title else 0) + 0.5 * self.size

    def draw(self, pen: Pen, left: float, top: float, tall: float) -> None:
        chrome, size, y = self.preset.chrome, self.size, top
        for words in self.titles:
            y += 0.625 * self.preset.text
            pen.text(left, y, words, self.preset.text, chrome.ink, kind="panel")
            y += 0.625 * self.preset.text
        if self.names:
            self.names.draw(pen, left, y)
        x, y = left + self.left, top + self.above
        low, high = self.y_ticks[0], self.y_ticks[-1]

        def down(value: float) -> float:
            return y + tall * (high - value) / (high - low)

        for value, words in zip(self.y_ticks, self.y_labels, strict=True):
            pen.line(x, down(value), x + self.across, down(value), chrome.rule, 0.5)
            pen.text(x - 0.4 * size, down(value), words, size, chrome.ink, anchor="end")
        if self.series.y_title:
            words = fitted(label(self.series.y_title, 80), size, tall + 2 * size)
            pen.text(left + 0.6 * size, y + tall / 2, words, size, chrome.muted,
                     anchor="middle", upright=True, kind="unit")  # fmt: skip
        self._below(pen, x, y + tall)
        for index, (values, colour) in enumerate(
            zip(self.series.lines.values(), categorical(len(self.series.lines), self.preset.theme),
                strict=True)
        ):  # fmt: skip
            places = [
                (x + self.place(at), down(value))
                for at, value in enumerate(np.asarray(values, dtype=np.float64).tolist())
            ]
            self._mark(pen, places, colour, index, down(min(max(0.0, low), high)))

    def place(self, index: int) -> float:
        """Where a point is, from the axis to the right."""
        if self.labels:
            return self.across * (index + 0.5) / self.n
        x = np.asarray(self.series.x, dtype=np.float64)
        low, high = float(x.min()), float(x.max())
        return self.across * (float(x[index]) - low) / ((high - low) or 1.0)

    def _below(self, pen: Pen, x: float, y: float) -> None:
        """The labels and the title of the horizontal axis."""
        chrome, size = self.preset.chrome, self.size
        if self.labels:
            step = self.across / self.n
            every = ceil(1.05 * size / step) if self.hanging else 1
            for index in range(0, self.n, every):
                words = fitted(self.labels[index], size, self.under)
                at = x + self.place(index)
                if self.hanging:
                    end = y + 0.4 * size
                    pen.text(at, end, words, size, chrome.ink, anchor="end", upright=True)
                else:
                    words = self.labels[index]
                    pen.text(at, y + 0.9 * size, words, size, chrome.ink, anchor="middle")
        else:
            low, high = (float(each) for each in (min(self.series.x), max(self.series.x)))
            for value in self.x_ticks:
                at = x + self.across * (value - low) / ((high - low) or 1.0)
                words = f"{value:.6g}".replace("-", "−")
                pen.text(at, y + 0.9 * size, words, size, chrome.ink, anchor="middle")
        if self.series.x_title:
            words = fitted(label(self.series.x_title, 80), size, self.across)
            middle = x + self.across / 2
            pen.text(middle, y + self.under + 1.1 * size, words, size, chrome.muted,
                     anchor="middle")  # fmt: skip

    def _mark(
        self, pen: Pen, places: list[tuple[float, float]], colour: str, index: int, zero: float
    ) -> None:
        known = [(x, y) for x, y in places if y == y]
        if self.series.mark == "bar":
            wide = 0.8 * self.across / self.n / len(self.series.lines)
            start = (index - len(self.series.lines) / 2) * wide
            for x, y in known:
                pen.rect(x + start, min(y, zero), wide, abs(zero - y), colour, kind="bar")
            return
        unit = self.preset.text / 8
        if self.series.mark == "line" and len(known) > 1:
            d = "".join(
                f"{'L' if at else 'M'}{number(x)} {number(y)}" for at, (x, y) in enumerate(known)
            )
            pen.path(d, colour, unit, kind="line")
        if self.series.mark == "point" or self.n <= _MOST_MARKED:
            for x, y in known:
                pen.circle(x, y, 1.3 * unit if self.series.mark == "line" else 2 * unit, colour)


def ticks(low: float, high: float, most: int) -> list[float]:
    """Return round numbers from at most `low` to at least `high`, at most about `most` of them."""
    if not high > low:
        low, high = low - (abs(low) or 1) / 2, high + (abs(high) or 1) / 2
    rough = (high - low) / most
    size = 10.0 ** floor(log10(rough))
    step = next(each * size for each in (1, 2, 5, 10) if each * size >= rough * (1 - 1e-9))
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return [round(at * step, 12) for at in range(first, last + 1)]
