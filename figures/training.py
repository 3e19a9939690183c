"""Training figures (section 5): learning rate, scores by update, and differences from the paper."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import altair as alt
import numpy as np

from figures.charts import Drawn, accented, coloured, either, points, quiet, tips
from figures.palette import CHROME, Theme, categorical


@dataclass(frozen=True)
class Change:
    """One row of `differences`."""

    name: str  # label
    group: str  # "(A) ..." above the rows that share it
    #: ours, reach: difference from base and half the width of its 95% interval; NaN if not run
    ours: float
    reach: float
    theirs: float  # the paper's difference
    verdict: str  # for the tooltip


def differences(changes: Sequence[Change], title: str, theme: Theme) -> Drawn:
    """Draw differences from the base model: this project's, with intervals, and the paper's."""
    chrome = CHROME[theme]
    heads = {change.group: change.name for change in reversed(changes)}  # by their first row
    names = [
        name
        for change in changes
        for name in ([change.group] if heads[change.group] == change.name else []) + [change.name]
    ]
    values = [
        {"row": change.name, "whose": whose, "value": value, "verdict": change.verdict,
         "low": value - reach, "high": value + reach}
        for change in changes
        for whose, value, reach in (
            ("this project", change.ours, change.reach if math.isfinite(change.reach) else 0.0),
            ("the paper", change.theirs, 0.0),
        )
        if math.isfinite(value)
    ]  # fmt: skip
    y = alt.Y(
        "row:N", sort=names, title=None, scale=alt.Scale(domain=names),
        axis=alt.Axis(labelLimit=_LABELS - 10, grid=True, ticks=False, domain=False,
                      minExtent=_LABELS, maxExtent=_LABELS,
                      labelExpr="datum.label[0] == '(' ? '' : datum.label"),
    )  # fmt: skip
    x = alt.X("value:Q", title=title, axis=alt.Axis(tickCount=8))  # few enough that 0 has its label
    base, sides = points(values), ("this project", "the paper")
    colour = coloured("whose:N", sides, [chrome.accent, chrome.muted], orient="top")
    scale = alt.Scale(domain=list(sides), range=["circle", "diamond"])
    shape = alt.Shape("whose:N", legend=alt.Legend(orient="top", title=None), scale=scale)
    zero = points([{"value": 0}]).mark_rule(color=chrome.muted).encode(x=x)
    intervals = base.transform_filter("datum.high > datum.low").mark_rule(strokeWidth=2).encode(
        x=alt.X("low:Q", title=title), x2=alt.X2("high:Q"), y=y, color=colour
    )  # fmt: skip
    dots = base.mark_point(size=90, filled=True, opacity=1).encode(
        x=x, y=y, color=colour, shape=shape,
        tooltip=tips(
            ("row:N", "", "change"), ("whose:N", "", "measured by"), ("value:Q", "+.3f", title),
            "verdict:N",
        ),
    )  # fmt: skip
    headings = points([{"row": group} for group in heads]).mark_text(
        align="left", fontSize=13, fontWeight="bold", color=chrome.ink
    ).encode(x=alt.value(-_LABELS), y=y, text="row:N")  # fmt: skip
    height = 21 * max(1, len(names)) + 20
    return quiet(alt.layer(zero, intervals, dots, headings), theme, height=height)


#: Width of the labels beside `differences`, px.
_LABELS = 250

#: Maximum points in a curve; longer runs are thinned.
MOST_POINTS = 400

Curve = Sequence[tuple[int, float]]


def curves(
    lines: Mapping[str, Curve], title: str, theme: Theme, *, share: bool = False,
    from_zero: bool = True,
) -> Drawn:  # fmt: skip
    """Draw values by update: one line per model, and a legend for several.

    Updates have a logarithmic axis if most of them are early, as in a model's snapshots.

    Args:
        share: values are shares from 0 to 1, labelled as percentages.
        from_zero: whether the y axis includes zero.
    """
    names, looks = list(lines), list(categorical(len(lines), theme))
    values = [
        {"model": name, "update": update, "value": value}
        for name, line in lines.items()
        for update, value in thinned(line)
    ]
    unit = alt.Scale(domain=[0, 1])  # also without points, whose extent would be infinite
    scale = unit if share or not values else alt.Scale(zero=from_zero)
    places = [update for line in lines.values() for update, _ in line]
    early = bool(places) and 8 * median(places) < max(places)
    marks = [0, *(step * 10**n for n in range(1, 7) for step in (1, 3))]
    spaced = alt.Axis(values=marks, labelOverlap="greedy", labelSeparation=8)
    updates = alt.Scale(type="symlog", constant=10) if early else alt.Scale() if values else unit
    written = alt.Axis(format="%" if share else "~g", tickCount=5)
    base = points(values).mark_line(
        strokeWidth=2.5, point=alt.OverlayMarkDef(size=18) if len(values) < 60 else False
    )
    chart = base.encode(
        x=alt.X("update:Q", title="update", scale=updates,
                axis=spaced if early else alt.Axis(tickMinStep=1, tickCount=6)),
        y=alt.Y("value:Q", title=title, scale=scale, axis=written),
        color=alt.Color(
            "model:N", title=None, scale=alt.Scale(domain=names, range=looks),
            legend=alt.Legend(orient="top", columns=3, labelLimit=280) if len(names) > 1 else None,
        ),
        strokeDash=alt.StrokeDash("model:N", sort=names, legend=None),
        tooltip=tips("model:N", "update:Q", ("value:Q", ".4g", title)),
    )  # fmt: skip
    return quiet(chart, theme, height=220)


def histories(
    lines: Mapping[str, Curve], short: Mapping[str, str], chosen: str, title: str, theme: Theme,
    height: int, level: tuple[str, float],
) -> Drawn:  # fmt: skip
    """Draw values by update in grey, the chosen or pointed line in colour; names are at the ends.

    Args: short: names for a phone. level: name and value of a dashed line.
    """
    place, apart = -math.inf, max(at for line in lines.values() for _, at in line) * 20 / height
    ends: list[dict[str, object]] = []
    for name, line in sorted(lines.items(), key=lambda item: item[1][-1][1]):
        update, value = line[-1]
        place = max(value, place + apart)
        texts = {"long": f"{value:.2f}  {name}", "short": f"{value:.2f}  {short[name]}"}
        ends.append({"model": name, "update": update, "value": value, "place": place, **texts})
    near = alt.selection_point("near", on="pointerover", fields=["model"], empty=False)
    is_chosen = f"near.model ? near.model[0] === datum.model : datum.model === {json.dumps(chosen)}"
    words = "width < 600 ? datum.short : datum.long"
    room = "width < 600 ? min(0.56 * width, 195) : 290"
    colour, right = accented(is_chosen, theme), alt.ExprRef(f"width - ({room})")
    chart: Any = curves(lines, title, theme)
    chart = chart.encode(
        opacity=alt.OpacityValue(**either(is_chosen, 1, 0.45)), detail=alt.Detail("model:N"),
        color=colour, tooltip=tips("model:N", "update:Q", ("value:Q", ".2f", title)),
    )  # fmt: skip
    x, y = chart.encoding.x, chart.encoding.y
    x["scale"].range, x["axis"].grid, y["axis"].grid = [0, right], False, False
    chart.encoding.strokeDash = chart.config = alt.Undefined
    catch = chart.mark_line(strokeWidth=17).encode(opacity=alt.OpacityValue(0))
    base = points(ends).encode(color=colour, tooltip=alt.value(None))
    rules = base.mark_rule(strokeDash=[1, 3]).encode(
        x=x, x2=alt.value(right), y=y, y2=alt.Y2("place:Q")
    )
    names = base.mark_text(align="left", dx=6, fontSize=13).encode(
        x=alt.value(right), y=alt.Y("place:Q"), text=alt.TextValue(alt.ExprRef(words))
    )
    even = points([{"name": level[0], "value": level[1]}]).encode(
        x=alt.value(right), y="value:Q", color=alt.value(CHROME[theme].muted)
    )
    dashed = even.mark_rule(strokeDash=[6, 4]).encode(x2=alt.value(0))
    said = even.mark_text(align="right", dy=-8, fontSize=13).encode(text="name:N")
    layers = chart.add_params(near), dashed, said, rules, names, catch
    return quiet(alt.layer(*layers), theme, height=height)


def thinned(line: Curve) -> Curve:
    """Return at most `MOST_POINTS` points, including the first and the last."""
    if len(line) <= MOST_POINTS:
        return line
    picked = np.linspace(0, len(line) - 1, MOST_POINTS).round().astype(int)
    return [line[index] for index in picked]
