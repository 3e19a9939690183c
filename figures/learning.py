"""A training run as it goes: curves by update, and the attention maps of one layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt
import numpy as np

from figures.attention import check_map
from figures.charts import Drawn, points, quiet, tips
from figures.labels import plain_token
from figures.palette import CHROME, Theme, as_altair, attention_table, categorical
from transformer.types import Floats

#: Points of a curve; longer runs are thinned.
MOST_POINTS = 400

Curve = Sequence[tuple[int, float]]


def curves(
    lines: Mapping[str, Curve],
    title: str,
    theme: Theme,
    *,
    share: bool = False,
    from_zero: bool = True,
    height: int = 220,
) -> Drawn:
    """Draw values by update, a line for each model; a legend if there are several.

    Args:
        share: values from 0 to 1, written as percentages.
        from_zero: whether the axis begins at zero.
    """
    names = list(lines)
    values = [
        {"model": name, "update": update, "value": value}
        for name, line in lines.items()
        for update, value in thinned(line)
    ]
    scale = alt.Scale(domain=[0, 1]) if share else alt.Scale(zero=from_zero)
    written = alt.Axis(format="%" if share else "~g", tickCount=5)
    base = points(values).mark_line(
        strokeWidth=2.5, point=alt.OverlayMarkDef(size=18) if len(values) < 60 else False
    )
    chart = base.encode(
        x=alt.X("update:Q", title="update", axis=alt.Axis(tickMinStep=1, tickCount=6)),
        y=alt.Y("value:Q", title=title, scale=scale, axis=written),
        color=alt.Color(
            "model:N", title=None,
            scale=alt.Scale(domain=names, range=categorical(len(names), theme)),
            legend=alt.Legend(orient="top") if len(names) > 1 else None,
        ),
        strokeDash=alt.StrokeDash("model:N", sort=names, legend=None),
        tooltip=tips("model:N", "update:Q", ("value:Q", ".4g", title)),
    )  # fmt: skip
    return quiet(chart, theme, height=height)


def thinned(line: Curve) -> Curve:
    """Return at most `MOST_POINTS` points, the last among them."""
    if len(line) <= MOST_POINTS:
        return line
    picked = np.linspace(0, len(line) - 1, MOST_POINTS).round().astype(int)
    return [line[index] for index in picked]


def layer_maps(
    maps: Floats, queries: Sequence[str], keys: Sequence[str], theme: Theme, *, width: int = 180
) -> Drawn:
    """Draw the maps of one layer, [H, T, S], side by side.

    Raises: `ValueError` if the shape is not [H, queries, keys].
    """
    for each in maps:
        check_map(each, queries, keys)
    rows, columns = _labels(queries), _labels(keys)
    values = [
        {"head": head + 1, "query": rows[t], "key": columns[s], "weight": round(float(weight), 3)}
        for (head, t, s), weight in np.ndenumerate(maps)
    ]
    scale = alt.Scale(type="sqrt", domain=[0, 1], range=as_altair(attention_table(theme)))
    plain = "split(datum.label, ' ')[1]"
    chart = (
        points(values)
        .mark_rect()
        .encode(
            x=alt.X(
                "key:N", sort=columns, title="key",
                axis=alt.Axis(labelExpr=plain, labelAngle=0, labelOverlap=True, orient="top"),
            ),
            y=alt.Y(
                "query:N", sort=rows, title="query",
                axis=alt.Axis(labelExpr=plain, labelOverlap=True),
            ),
            color=alt.Color("weight:Q", scale=scale, legend=None),
            tooltip=tips("head:N", "query:N", "key:N", ("weight:Q", ".3f")),
        )
        .properties(width=width, height=max(80, round(width * len(rows) / len(columns))))
        .facet(
            facet=alt.Facet(
                "head:N", title=None,
                header=alt.Header(labelExpr="'head ' + datum.value", labelColor=CHROME[theme].ink),
            ),
            columns=4,
        )
    )  # fmt: skip
    return quiet(chart, theme)


def _labels(tokens: Sequence[str]) -> list[str]:
    return [f"{index} {plain_token(token)}" for index, token in enumerate(tokens, start=1)]
