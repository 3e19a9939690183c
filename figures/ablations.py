"""The figure of table 3: what each change does to the base model, here and in the paper."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt

from figures.charts import Drawn, coloured, points, quiet, tips
from figures.palette import CHROME, Theme

#: Height of one row in px.
_ROW = 24


@dataclass(frozen=True)
class Change:
    """One row of the figure."""

    name: str  # its label
    #: ours, reach: difference to base and half the width of its 95% interval; NaN where it was not
    #: run
    ours: float
    reach: float
    theirs: float  # the paper's difference
    verdict: str  # shown with the pointer on the row


def differences(changes: Sequence[Change], title: str, theme: Theme) -> Drawn:
    """Draw differences to the base model, ours with their intervals."""
    chrome = CHROME[theme]
    names = [each.name for each in changes]
    values = [
        {
            "row": each.name, "whose": whose, "value": value, "verdict": each.verdict,
            "low": value - reach, "high": value + reach,
        }
        for each in changes
        for whose, value, reach in (
            ("this project", each.ours, each.reach if math.isfinite(each.reach) else 0.0),
            ("the paper", each.theirs, 0.0),
        )
        if math.isfinite(value)
    ]  # fmt: skip
    y = alt.Y(
        "row:N", sort=names, title=None, scale=alt.Scale(domain=names),
        axis=alt.Axis(labelLimit=280, grid=True, ticks=False, domain=False),
    )  # fmt: skip
    x = alt.X("value:Q", title=title, axis=alt.Axis(tickCount=8))  # few enough that 0 has its label
    base, sides = points(values), ["this project", "the paper"]
    colour = coloured("whose:N", sides, [chrome.accent, chrome.muted], orient="top")
    scale = alt.Scale(domain=sides, range=["circle", "diamond"])
    shape = alt.Shape("whose:N", legend=alt.Legend(orient="top", title=None), scale=scale)
    zero = points([{"value": 0}]).mark_rule(color=chrome.muted).encode(x=x)
    bars = base.transform_filter("datum.high > datum.low").mark_rule(strokeWidth=2).encode(
        x=alt.X("low:Q", title=title), x2=alt.X2("high:Q"), y=y, color=colour
    )  # fmt: skip
    dots = base.mark_point(size=90, filled=True, opacity=1).encode(
        x=x, y=y, color=colour, shape=shape,
        tooltip=tips(
            ("row:N", "", "change"), ("whose:N", "", "measured by"), ("value:Q", "+.3f", title),
            "verdict:N",
        ),
    )  # fmt: skip
    height = _ROW * max(1, len(names)) + 20
    return quiet(alt.layer(zero, bars, dots), theme, height=height)
