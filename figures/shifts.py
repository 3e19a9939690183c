"""Figures of the effect of a shift by k on sinusoids (section 3.5, last paragraph)."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np
from numpy.typing import NDArray

from figures.attention import FONT
from figures.charts import quiet
from figures.palette import CHROME, Theme, categorical
from transformer.types import Floats


def product_by_offset(
    offsets: NDArray[np.int64], values: Floats, starts: Sequence[int], theme: Theme
) -> alt.LayerChart:
    """Draw dot products by offset k, from several starts: the curves coincide.

    Args:
        offsets: [n].  values: [n, P], PE(start) · PE(start + k).  starts: [P].
    """
    if values.shape != (len(offsets), len(starts)):
        raise ValueError(f"values of shape {values.shape} for {len(offsets)} x {len(starts)}")
    rows = [
        {"k": int(k), "product": float(values[i, j]), "from pos": f"pos {start}"}
        for j, start in enumerate(starts)
        for i, k in enumerate(offsets)
    ]
    names = [f"pos {start}" for start in starts]
    colours = categorical(len(names), theme)
    lines = [
        alt.Chart(alt.InlineData(values=[row for row in rows if row["from pos"] == name]))
        # Wide lines below narrow ones, so that equal curves all stay visible.
        .mark_line(strokeWidth=2 + 4 * (len(names) - 1 - i), strokeCap="round")
        .encode(
            x=alt.X("k:Q", title="offset k"),
            y=alt.Y("product:Q", title="PE(pos) · PE(pos + k)"),
            color=alt.Color(
                "from pos:N",
                scale=alt.Scale(domain=names, range=colours),
                legend=alt.Legend(title="measured from", orient="top", symbolStrokeWidth=4),
            ),
            tooltip=[
                alt.Tooltip("from pos:N"),
                alt.Tooltip("k:Q"),
                alt.Tooltip("product:Q", format=".3f"),
            ],
        )
        for i, name in enumerate(names)
    ]
    chart: alt.LayerChart = quiet(alt.layer(*lines).properties(height=280), theme)
    return chart


def clocks(
    before: Floats, after: Floats, expected: Floats, names: Sequence[str], theme: Theme
) -> alt.FacetChart:
    """Draw each (sin, cos) pair as the hand of a clock, before and after its rotation.

    Sine points up and cosine right, so a hand stands at the angle pos w_i.

    Args:
        before: [P, 2], the pairs of PE(pos), sine first.  after: [P, 2], the same rotated by M_k.
        expected: [P, 2], the pairs of PE(pos + k).  names: [P].
    """
    for pairs in (before, after, expected):
        if pairs.shape != (len(names), 2):
            raise ValueError(f"pairs of shape {pairs.shape}; expected ({len(names)}, 2)")
    rows: list[dict[str, object]] = []
    for i, name in enumerate(names):
        for what, (sine, cosine) in (
            ("PE(pos)", before[i]),
            ("turned by k", after[i]),
            ("PE(pos + k)", expected[i]),
        ):
            place = {"pair": name, "what": what, "x": float(cosine), "y": float(sine)}
            rows.append(place | {"x0": 0.0, "y0": 0.0})
    chrome = CHROME[theme]
    circle = [
        {"cx": float(np.cos(a)), "cy": float(np.sin(a)), "i": i}
        for i, a in enumerate(np.linspace(0, 2 * np.pi, 61))
    ]
    scale = alt.Scale(domain=[-1.15, 1.15])
    data = alt.InlineData(values=rows)
    rim = (
        alt.Chart()
        .mark_line(color=chrome.muted, opacity=0.5, strokeWidth=1)
        .encode(
            x=alt.X("cx:Q", scale=scale, axis=None),
            y=alt.Y("cy:Q", scale=scale, axis=None),
            order=alt.Order("i:O"),
        )
        .properties(data=alt.InlineData(values=circle))
    )
    first, second = categorical(2, theme)
    colour = alt.Color(
        "what:N",
        scale=alt.Scale(
            domain=["PE(pos)", "turned by k", "PE(pos + k)"],
            range=[chrome.muted, first, second],
        ),
        legend=alt.Legend(title=None, orient="top", symbolStrokeWidth=3),
    )
    hands = (
        alt.Chart()
        .mark_rule(strokeWidth=3, strokeCap="round")
        .encode(
            x=alt.X("x0:Q", scale=scale, axis=None),
            y=alt.Y("y0:Q", scale=scale, axis=None),
            x2=alt.X2("x:Q"),
            y2=alt.Y2("y:Q"),
            color=colour,
        )
        .transform_filter("datum.what != 'PE(pos + k)'")
    )
    goal = (
        alt.Chart()
        .mark_point(size=110, strokeWidth=3, filled=False)
        .encode(
            x=alt.X("x:Q", scale=scale, axis=None),
            y=alt.Y("y:Q", scale=scale, axis=None),
            color=colour,
            tooltip=[
                alt.Tooltip("pair:N"),
                alt.Tooltip("y:Q", title="sin", format=".4f"),
                alt.Tooltip("x:Q", title="cos", format=".4f"),
            ],
        )
        .transform_filter("datum.what == 'PE(pos + k)'")
    )
    layers = alt.layer(rim, hands, goal, data=data).properties(width=92, height=92)
    facets = layers.facet(
        facet=alt.Facet(
            "pair:N",
            sort=list(names),
            title=None,
            header=alt.Header(labelColor=chrome.ink, labelFontSize=13, labelFont=FONT),
        ),
        columns=len(names),
        spacing=14,
    )
    chart: alt.FacetChart = quiet(facets, theme)
    return chart
