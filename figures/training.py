"""Figures of training (section 5): the learning rate, smoothed labels, and scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt
import numpy as np
from numpy.typing import NDArray

from figures.charts import Drawn, accented, marker, named_bars, points, quiet, tips
from figures.palette import CHROME, Theme
from transformer.types import Floats

#: Where the axis of bars ends, as a multiple of the longest, which leaves room for its number.
_ROOM = 1.08


def rate_curve(
    updates: NDArray[np.int64], rates: Floats, warmup: int, theme: Theme, height: int = 320
) -> Drawn:
    """Draw the learning rate by update, with the end of the warm-up marked.

    Shapes: `updates` and `rates` [n].
    """
    values = [
        {"update": int(n), "rate": float(rate)} for n, rate in zip(updates, rates, strict=True)
    ]
    line = points(values).mark_line(color=CHROME[theme].accent, strokeWidth=2.5).encode(
        x=alt.X("update:Q", title="update n", axis=alt.Axis(format=",d", tickCount=8)),
        y=alt.Y("rate:Q", title="learning rate", axis=alt.Axis(format="~g", tickCount=5)),
        tooltip=tips(("update:Q", ","), ("rate:Q", ".3e")),
    )  # fmt: skip
    warmed = marker("update", warmup, theme, "end of the warm-up", below=True)
    return quiet(alt.layer(line, *warmed), theme, height=height)


def bars(
    shares: Mapping[str, float], title: str, theme: Theme, *, marked: Sequence[str] = (),
    written: str = ".3g", height: int = 260,
) -> Drawn:  # fmt: skip
    """Draw named numbers as bars with their values; those in `marked` have the accent colour."""
    values = [
        {"name": name, "value": float(value), "marked": name in marked}
        for name, value in shares.items()
    ]
    scale = alt.Scale(zero=True, domainMax=_ROOM * max(shares.values()))
    x = alt.X("value:Q", title=title, axis=alt.Axis(tickCount=6), scale=scale)
    colour = accented("datum.marked", theme)
    return named_bars(values, x, theme, colour=colour, written=written, height=height)
