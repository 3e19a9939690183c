"""Figures of the effect of a shift by k on sinusoids (section 3.5, last paragraph)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import altair as alt
import numpy as np
from numpy.typing import NDArray

from figures.charts import FONT, Drawn, coloured, points, quiet, tips
from figures.palette import CHROME, Theme, categorical
from transformer.types import Floats


def product_by_offset(
    offsets: NDArray[np.int64], values: Floats, starts: Sequence[int], theme: Theme
) -> Drawn:
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
        points([row for row in rows if row["from pos"] == name])
        # Wide lines below narrow ones, so that equal curves all stay visible.
        .mark_line(strokeWidth=2 + 4 * (len(names) - 1 - i), strokeCap="round")
        .encode(
            x=alt.X("k:Q", title="offset k"),
            y=alt.Y("product:Q", title="PE(pos) · PE(pos + k)"),
            color=coloured("from pos:N", names, colours, title="measured from", orient="top",
                           symbolStrokeWidth=4),
            tooltip=tips("from pos:N", "k:Q", ("product:Q", ".3f")),
        )
        for i, name in enumerate(names)
    ]  # fmt: skip
    return quiet(alt.layer(*lines), theme, height=280)


def clocks(
    before: Floats, after: Floats, expected: Floats, names: Sequence[str], theme: Theme
) -> Drawn:
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
    x, y = (partial(channel, scale=scale, axis=None) for channel in (alt.X, alt.Y))
    rim = points(circle).mark_line(color=chrome.muted, opacity=0.5, strokeWidth=1).encode(
        x=x("cx:Q"), y=y("cy:Q"), order=alt.Order("i:O")
    )  # fmt: skip
    colour = coloured(
        "what:N", ["PE(pos)", "turned by k", "PE(pos + k)"],
        [chrome.muted, *categorical(2, theme)], orient="top", symbolStrokeWidth=3,
    )  # fmt: skip
    hands = alt.Chart().mark_rule(strokeWidth=3, strokeCap="round").encode(
        x=x("x0:Q"), y=y("y0:Q"), x2=alt.X2("x:Q"), y2=alt.Y2("y:Q"), color=colour
    ).transform_filter("datum.what != 'PE(pos + k)'")  # fmt: skip
    goal = alt.Chart().mark_point(size=110, strokeWidth=3, filled=False).encode(
        x=x("x:Q"), y=y("y:Q"), color=colour,
        tooltip=tips("pair:N", ("y:Q", ".4f", "sin"), ("x:Q", ".4f", "cos")),
    ).transform_filter("datum.what == 'PE(pos + k)'")  # fmt: skip
    layers = alt.layer(rim, hands, goal, data=alt.InlineData(values=rows))
    header = alt.Header(labelColor=chrome.ink, labelFontSize=13, labelFont=FONT)
    facets = layers.properties(width=92, height=92).facet(
        facet=alt.Facet("pair:N", sort=list(names), title=None, header=header),
        columns=len(names),
        spacing=14,
    )
    return quiet(facets, theme)
