"""Figures of table 1: layer costs by length, and signal paths through layers."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import altair as alt
import numpy as np

from figures.charts import Drawn, coloured, either, marker, points, quiet, tips
from figures.palette import CHROME, Theme, categorical
from transformer.measures.layer_costs import PathKind, Place, route, spread, successors
from transformer.types import Reals

#: Dash patterns of layer kinds.
_DASHES = ([1, 0], [7, 3], [2, 2])


def cost_lines(
    lengths: Sequence[int], lines: Mapping[str, Reals], title: str, width: int, theme: Theme
) -> Drawn:
    """Plot a quantity against length on logarithmic axes, with n = d marked.

    Args:
        lines: [lengths] by name; NaN if not measured.
        width: d.
    """
    values: list[dict[str, Any]] = [
        {"name": name, "n": n, "value": float(value)}
        for name, line in lines.items()
        for n, value in zip(lengths, line, strict=True)
        if np.isfinite(value)
    ]
    logs = np.log10([row["value"] for row in values] or [1])
    decades = [10.0**power for power in range(math.floor(logs.min()), math.ceil(logs.max()) + 1)]
    families = list(dict.fromkeys(_family(name) for name in lines))
    legend: dict[str, Any] = {"orient": "bottom", "columns": 2, "labelLimit": 400,
                              "symbolType": "stroke", "symbolSize": 300}  # fmt: skip
    base = points(values).encode(
        x=alt.X(
            "n:Q", title="length n", scale=alt.Scale(type="log", base=2),
            axis=alt.Axis(
                values=list(lengths), grid=False, labelOverlap="greedy", labelSeparation=6
            ),
        ),
        y=alt.Y(
            "value:Q", title=title, scale=alt.Scale(type="log", domain=[decades[0], decades[-1]]),
            axis=alt.Axis(format=",~g", values=decades),
        ),
        color=coloured("name:N", list(lines), categorical(len(lines), theme), **legend),
        tooltip=tips(("name:N", "", "layer"), ("n:Q", "", "n"), ("value:Q", ".3~g", title)),
    )  # fmt: skip
    # Lines of different layer kinds may coincide.
    dashes = [_DASHES[families.index(_family(name)) % len(_DASHES)] for name in lines]
    scale = alt.Scale(domain=list(lines), range=dashes)
    dashed = alt.StrokeDash("name:N", scale=scale, legend=alt.Legend(title=None, **legend))
    drawn = [
        base.mark_line(strokeWidth=2.5).encode(strokeDash=dashed),
        base.mark_circle(size=45, opacity=1),
    ]
    if lengths[0] <= width <= lengths[-1]:
        drawn += marker("n", width, theme, "n = d")
    return quiet(alt.layer(*drawn), theme, height=300)


def path_picture(
    kind: PathKind, start: int, end: int, walked: int, n: int, size: int, theme: Theme
) -> Drawn:  # fmt: skip
    """Draw the positions of all layers, those that the signal has reached, and a shortest path.

    Args:
        start, end: 0-based positions.
        walked: number of steps taken.
        size: see `transformer.measures.layer_costs.successors`.
    """
    chrome = CHROME[theme]
    path = route(kind, start, end, size)
    fronts = spread(kind, start, walked, n, size)
    reached = set().union(*fronts)
    taken = path[: walked + 1]
    if path[0][0]:  # entering the recurrent layer takes no step
        path, taken = [(0, start), *path], [(0, start), *taken]
    edges = [
        _edge(node, other, "reached")
        for nodes in fronts[:-1]
        for node in sorted(nodes)
        for other in successors(kind, node, n, size)
    ]
    edges += [_edge(a, b, "path") for a, b in pairwise(taken)]
    levels = max(level for level, _ in path)
    nodes = [
        {"position": place + 1, "level": level, "state": _state((level, place), taken, reached)}
        for level in range(levels + 1)
        for place in range(n)
    ]
    x = alt.X(
        "position:Q", title="position", scale=alt.Scale(domain=[0.5, n + 0.5], nice=False),
        axis=alt.Axis(grid=False, values=list(range(1, n + 1)), format="d"),
    )  # fmt: skip
    y = alt.Y(
        "level:Q", title=None, scale=alt.Scale(domain=[-0.8, levels + 0.8], nice=False),
        axis=alt.Axis(
            grid=False, values=list(range(levels + 1)), domain=False, ticks=False,
            labelExpr="datum.value == 0 ? 'input' : 'layer ' + datum.value",
        ),
    )  # fmt: skip
    states = ["idle", "reached", "path"]
    colours = [chrome.rule, chrome.muted, chrome.accent]
    colour = alt.Color("state:N", legend=None, scale=alt.Scale(domain=states, range=colours))
    lines = points(edges).mark_rule().encode(
        x=x, x2=alt.X2("to:Q"), y=y, y2=alt.Y2("above:Q"), color=colour,
        strokeWidth=alt.StrokeWidthValue(**either("datum.state == 'path'", 4, 1)),
        opacity=alt.OpacityValue(**either("datum.state == 'path'", 1, 0.45)),
    )  # fmt: skip
    dots = points(nodes).mark_circle(opacity=1).encode(
        x=x, y=y, color=colour,
        size=alt.SizeValue(**either("datum.state == 'path'", 190, 70)),
        tooltip=tips("position:Q", ("level:Q", "", "layer")),
    )  # fmt: skip
    words = [
        points([{"position": place + 1, "level": level, "said": word}])
        .mark_text(dy=dy, color=chrome.ink, fontSize=13, fontWeight="bold")
        .encode(x=x, y=y, text=alt.Text("said:N"))
        for (level, place), word, dy in ((path[0], "from", 17), (path[-1], "to", -15))
    ]  # fmt: skip
    parts = [*([lines] if edges else []), dots, *words]
    return quiet(alt.layer(*parts), theme, height=min(380, 130 + 60 * levels))


def _family(name: str) -> str:
    return name.split(",")[0]  # the "Attention" of "Attention, fused"


def _edge(node: Place, other: Place, state: str) -> dict[str, object]:
    (level, place), (above, to) = node, other
    return {"position": place + 1, "level": level, "to": to + 1, "above": above, "state": state}


def _state(node: Place, taken: Sequence[Place], reached: set[Place]) -> str:
    return "path" if node in taken else "reached" if node in reached else "idle"
