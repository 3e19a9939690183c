"""Curves of a beam search: the scores of branches by step, and the effect of the length penalty."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import altair as alt
import numpy as np
from numpy.typing import NDArray

from figures.channels import either
from figures.charts import quiet
from figures.labels import show_token
from figures.palette import CHROME, Theme, categorical

Numbers = NDArray[np.float64]


def branch_curves(
    values: Mapping[str, Sequence[float]],
    tokens: Mapping[str, Sequence[str]],
    shared: int,
    colours: Sequence[str],
    theme: Theme,
    *,
    title: str,
    height: int = 200,
) -> alt.LayerChart:
    """Draw one line per branch over the steps, and mark the step at which they part.

    Args:
        values: name to [n] numbers, one per step; lengths may differ.
        tokens: name to [n] tokens, shown on hover.
        shared: steps that the branches have in common.
        colours: one per branch.
        title: of the y axis.

    Raises: `ValueError` if a branch does not have one token per value, or there are no values.
    """
    rows: list[dict[str, object]] = []
    for name, line in values.items():
        if len(tokens[name]) != len(line) or not len(line):
            raise ValueError(f"branch {name!r}: {len(line)} values for {len(tokens[name])} tokens")
        rows += [
            {"branch": name, "step": step, "value": float(value), "token": show_token(token)}
            for step, (value, token) in enumerate(zip(line, tokens[name], strict=True), start=1)
        ]
    chrome = CHROME[theme]
    longest = max(map(len, values.values()))
    x = alt.X(
        "step:Q",
        title="step",
        axis=alt.Axis(tickMinStep=1, format="d", grid=False, tickCount=min(longest, 12)),
        scale=alt.Scale(domain=[1, max(2, longest)], nice=False),
    )
    lines = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(point=alt.OverlayMarkDef(size=36), strokeWidth=2.5)
        .encode(
            x=x,
            y=alt.Y("value:Q", title=title, scale=alt.Scale(zero=False)),
            color=alt.Color(
                "branch:N",
                scale=alt.Scale(domain=list(values), range=list(colours)),
                legend=alt.Legend(title=None, orient="top", symbolStrokeWidth=4),
            ),
            tooltip=[
                alt.Tooltip("branch:N"),
                alt.Tooltip("step:Q"),
                alt.Tooltip("token:N"),
                alt.Tooltip("value:Q", title=title, format=".3f"),
            ],
        )
    )
    layers = [lines]
    if 0 < shared < longest:
        part = (
            alt.Chart(alt.InlineData(values=[{"step": shared}]))
            .mark_rule(color=chrome.muted, strokeDash=[2, 4])
            .encode(x=x)
        )
        layers.insert(0, part)
    chart: alt.LayerChart = quiet(alt.layer(*layers).properties(height=height), theme)
    return chart


def lead_by_alpha(
    alphas: Numbers, scores: Numbers, names: Sequence[str], now: float, theme: Theme
) -> alt.LayerChart:
    """Draw each finished translation's lead over the first, by the exponent of the length penalty.

    Above 0, it would have beaten the first.

    Args:
        alphas: [n].  scores: [n, P].  names: [P], all different.
        now: the alpha of the search, marked by a rule.

    Raises: `ValueError` if the shapes do not agree.
    """
    if scores.shape != (len(alphas), len(names)):
        raise ValueError(f"scores of shape {scores.shape} for {len(alphas)} x {len(names)}")
    rows = [
        {
            "name": name,
            "alpha": float(alpha),
            "score": float(scores[i, j]),
            "lead": float(scores[i, j] - scores[i, 0]),
        }
        for j, name in enumerate(names)
        for i, alpha in enumerate(alphas)
    ]
    chrome = CHROME[theme]
    # The first categorical colour is close to the accent, which marks the winner.
    colours = [chrome.accent, *categorical(len(names), theme)[1:]]
    first = f"datum.name === {json.dumps(names[0])}"
    lines = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X("alpha:Q", title="α", scale=alt.Scale(nice=False)),
            y=alt.Y("lead:Q", title="score − score of the winner"),
            color=alt.Color(
                "name:N",
                sort=list(names),
                scale=alt.Scale(domain=list(names), range=colours),
                legend=alt.Legend(title=None, orient="right", symbolStrokeWidth=3),
            ),
            strokeWidth=alt.StrokeWidthValue(**either(first, 3.5, 1.5)),
            tooltip=[
                alt.Tooltip("name:N"),
                alt.Tooltip("alpha:Q", title="α", format=".2f"),
                alt.Tooltip("score:Q", format=".3f"),
            ],
        )
    )
    here = (
        alt.Chart(alt.InlineData(values=[{"alpha": now}]))
        .mark_rule(color=chrome.muted, strokeDash=[2, 4])
        .encode(x=alt.X("alpha:Q"))
    )
    chart: alt.LayerChart = quiet(alt.layer(here, lines).properties(height=240), theme)
    return chart
