"""Beam search curves: branch scores by step, and the effect of the length penalty."""

import json
from collections.abc import Mapping, Sequence

import altair as alt

from figures.charts import Drawn, coloured, either, marker, points, quiet, tips
from figures.labels import show_token
from figures.palette import CHROME, Theme, categorical
from transformer.types import Reals


def branch_curves(
    values: Mapping[str, Sequence[float]], tokens: Mapping[str, Sequence[str]], shared: int,
    colours: Sequence[str], theme: Theme, *, title: str, height: int = 200,
) -> Drawn:  # fmt: skip
    """Draw one line per branch over the steps, and mark the step at which branches diverge.

    Args:
        values: name to [n] numbers, one per step; lengths may differ.
        tokens: name to [n] tokens, for the tooltip.
        shared: number of common first steps.
        colours: one per branch.
        title: title of the y axis.

    Raises: `ValueError` if a branch has no values, or not one token per value.
    """
    rows: list[dict[str, object]] = []
    for name, line in values.items():
        if len(tokens[name]) != len(line) or not len(line):
            raise ValueError(f"branch {name!r}: {len(line)} values for {len(tokens[name])} tokens")
        rows += [
            {"branch": name, "step": step, "value": float(value), "token": show_token(token)}
            for step, (value, token) in enumerate(zip(line, tokens[name], strict=True), start=1)
        ]
    longest = max(map(len, values.values()))
    x = alt.X(
        "step:Q", title="step", scale=alt.Scale(domain=[1, max(2, longest)], nice=False),
        axis=alt.Axis(tickMinStep=1, format="d", grid=False, tickCount=min(longest, 12)),
    )  # fmt: skip
    lines = points(rows).mark_line(point=alt.OverlayMarkDef(size=36), strokeWidth=2.5).encode(
        x=x,
        y=alt.Y("value:Q", title=title, scale=alt.Scale(zero=False)),
        color=coloured("branch:N", list(values), colours, orient="top", symbolStrokeWidth=4),
        tooltip=tips("branch:N", "step:Q", "token:N", ("value:Q", ".3f", title)),
    )  # fmt: skip
    rule = marker(x, shared, theme) if 0 < shared < longest else []
    return quiet(alt.layer(*rule, lines), theme, height=height)


def lead_by_alpha(
    alphas: Reals, scores: Reals, names: Sequence[str], now: float, theme: Theme
) -> Drawn:
    """Draw each finished translation's lead over the first by length-penalty exponent.

    A translation above 0 would have beaten the first.

    Args:
        alphas: [n].  scores: [n, P].  names: [P], unique.
        now: the search's alpha, marked by a rule.

    Raises: `ValueError` if the shapes do not agree.
    """
    if scores.shape != (len(alphas), len(names)):
        raise ValueError(f"scores of shape {scores.shape} for {len(alphas)} x {len(names)}")
    rows = [
        {"name": name, "alpha": float(alpha), "score": float(scores[i, j]),
         "lead": float(scores[i, j] - scores[i, 0])}
        for j, name in enumerate(names)
        for i, alpha in enumerate(alphas)
    ]  # fmt: skip
    # The first categorical colour is close to the accent, which marks the winner.
    colours = [CHROME[theme].accent, *categorical(len(names), theme)[1:]]
    first = f"datum.name === {json.dumps(names[0])}"
    lines = points(rows).mark_line(strokeWidth=2).encode(
        x=alt.X("alpha:Q", title="α", scale=alt.Scale(nice=False)),
        y=alt.Y("lead:Q", title="score − score of the winner"),
        color=coloured("name:N", names, colours, orient="right", symbolStrokeWidth=3),
        strokeWidth=alt.StrokeWidthValue(**either(first, 3.5, 1.5)),
        tooltip=tips("name:N", ("alpha:Q", ".2f", "α"), ("score:Q", ".3f")),
    )  # fmt: skip
    return quiet(alt.layer(*marker("alpha", now, theme), lines), theme, height=240)
