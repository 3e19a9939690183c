"""Figures of training (section 5): the learning rate, smoothed labels, and scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt
import numpy as np
from numpy.typing import NDArray

from figures.channels import either
from figures.charts import quiet
from figures.palette import CHROME, Theme
from transformer.types import Floats

#: Where the axis of bars ends, as a multiple of the longest, which leaves room for its number.
_ROOM = 1.08


def rate_curve(
    updates: NDArray[np.int64], rates: Floats, warmup: int, theme: Theme, height: int = 320
) -> alt.LayerChart:
    """Draw the learning rate by update, with the end of the warm-up marked.

    Shapes: `updates` and `rates` [n].
    """
    chrome = CHROME[theme]
    values = [
        {"update": int(n), "rate": float(rate)} for n, rate in zip(updates, rates, strict=True)
    ]
    base = alt.Chart(alt.InlineData(values=values))
    line = base.mark_line(color=chrome.accent, strokeWidth=2.5).encode(
        x=alt.X("update:Q", title="update n", axis=alt.Axis(format=",d", tickCount=8)),
        y=alt.Y("rate:Q", title="learning rate", axis=alt.Axis(format="~g", tickCount=5)),
        tooltip=[alt.Tooltip("update:Q", format=","), alt.Tooltip("rate:Q", format=".3e")],
    )
    mark = alt.Chart(alt.InlineData(values=[{"update": warmup, "said": "end of the warm-up"}]))
    rule = mark.mark_rule(color=chrome.muted, strokeDash=[4, 4]).encode(x=alt.X("update:Q"))
    label = mark.mark_text(align="left", dx=6, dy=-14, color=chrome.ink, fontSize=13).encode(
        x=alt.X("update:Q"), y=alt.value("height"), text=alt.Text("said:N")
    )
    chart: alt.LayerChart = quiet(alt.layer(line, rule, label).properties(height=height), theme)
    return chart


def bars(
    shares: Mapping[str, float], title: str, theme: Theme, *, marked: Sequence[str] = (),
    written: str = ".3g", height: int = 260,
) -> alt.LayerChart:  # fmt: skip
    """Draw named numbers as bars with their values; those in `marked` have the accent colour."""
    chrome = CHROME[theme]
    values = [
        {"name": name, "value": float(value), "marked": name in marked}
        for name, value in shares.items()
    ]
    base = alt.Chart(alt.InlineData(values=values)).encode(
        y=alt.Y("name:N", sort=None, title=None, axis=alt.Axis(labelLimit=240)),
        x=alt.X(
            "value:Q",
            title=title,
            axis=alt.Axis(tickCount=6),
            scale=alt.Scale(zero=True, domainMax=_ROOM * max(shares.values())),
        ),
    )
    drawn = base.mark_bar(cornerRadiusEnd=3).encode(
        color=alt.ColorValue(**either("datum.marked", chrome.accent, chrome.muted))
    )
    label = base.mark_text(align="left", dx=6, color=chrome.ink, fontSize=13).encode(
        text=alt.Text("value:Q", format=written)
    )
    chart: alt.LayerChart = quiet(alt.layer(drawn, label).properties(height=height), theme)
    return chart
