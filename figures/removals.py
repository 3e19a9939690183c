"""Charts of what single parts of the model add, and of what is lost without them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt
import numpy as np

from figures.charts import Drawn, points, quiet, tips
from figures.labels import KIND_NAMES
from figures.palette import CHROME, Theme, as_altair, signed_table
from transformer.types import AttentionKind, Floats


def selection_of(kind: AttentionKind) -> str:
    """Return the name of the selection of a head of one kind."""
    return f"head_{kind}"


def head_needs(
    heads: Mapping[AttentionKind, Floats],
    out: Sequence[tuple[AttentionKind, int, int]],
    theme: Theme,
) -> Drawn:
    """Draw the change without each head, a table for each kind; a click selects a head.

    Args:
        heads: [L, H] by kind, in nats.
        out: the heads that are taken out, which are crossed.
    """
    limit = max(0.01, *(float(np.abs(each).max()) for each in heads.values()))
    tables = []
    for kind, changes in heads.items():
        rows = [
            {"kind": kind, "layer": layer + 1, "number": head + 1, "change": round(float(value), 4),
             "mark": "✕" if (kind, layer, head) in out else ""}
            for (layer, head), value in np.ndenumerate(changes)
        ]  # fmt: skip
        picked = alt.selection_point(
            name=selection_of(kind), fields=["kind", "layer", "number"], empty=False
        )
        base = points(rows).encode(
            x=alt.X("number:O", title="head", axis=alt.Axis(labelAngle=0, ticks=False)),
            y=alt.Y("layer:O", title="layer", axis=alt.Axis(ticks=False), sort="ascending"),
        )
        cells = base.mark_rect(
            stroke=CHROME[theme].surface, strokeWidth=2, cursor="pointer"
        ).encode(
            color=alt.Color(
                "change:Q", title="nats",
                scale=alt.Scale(domain=[-limit, limit], range=as_altair(signed_table(theme))),
                legend=alt.Legend(
                    orient="bottom", direction="horizontal", gradientLength=180, tickCount=3
                ) if kind == "cross" else None,
            ),
            tooltip=tips("layer:O", ("number:O", "", "head"), ("change:Q", "+.2f", "nats")),
        )  # fmt: skip
        crossed = base.mark_text(fontSize=13, color=CHROME[theme].ink).encode(text="mark:N")
        size = {"width": 26 * changes.shape[1], "height": 26 * changes.shape[0]}
        tables.append(
            alt.layer(cells.add_params(picked), crossed).properties(title=KIND_NAMES[kind], **size)
        )
    return quiet(alt.hconcat(*tables).resolve_scale(color="shared"), theme)


def part_needs(names: Sequence[str], changes: Floats, theme: Theme) -> Drawn:
    """Draw the change without each of several parts as bars, in their order; names differ."""
    chrome = CHROME[theme]
    table = as_altair(signed_table(theme))
    rows = [
        {"part": name, "change": round(float(value), 4)}
        for name, value in zip(names, changes, strict=True)
    ]
    chart = (
        points(rows)
        .mark_bar(stroke=chrome.muted, strokeWidth=0.5)
        .encode(
            x=alt.X("change:Q", title="change in nats", axis=alt.Axis(tickCount=4)),
            y=alt.Y("part:N", sort=None, title=None, axis=alt.Axis(ticks=False, labelLimit=160)),
            color=alt.condition(
                alt.datum.change < 0, alt.value(table[8]), alt.value(table[-8])
            ),
            tooltip=tips("part:N", ("change:Q", "+.2f", "nats")),
        )
    )  # fmt: skip
    return quiet(chart, theme, height=22 * len(rows))


#: The name of the selection of a bar.
BAR = "share"

#: What is written beside a bar.
_SAID = (
    "format(datum.share, '+.2f') + (isValid(datum.lost) ? '  ◆ ' + format(datum.lost, '+.2f') : '')"
)


def share_bars(rows: Sequence[Mapping[str, object]], theme: Theme) -> Drawn:
    """Draw shares of a difference of two logits as bars; a click selects one.

    Args: rows: each with a "name" of its own, a "share", what is "lost" without the part or None,
        and its "kind", "layer" and "head", which a selection has.
    """
    chrome, table = CHROME[theme], as_altair(signed_table(theme))
    values = [0.0, *(float(str(row[key] or 0)) for row in rows for key in ("share", "lost"))]
    low, high = min(values), max(values)
    room = alt.Scale(domain=[low, high + 0.4 * (high - low or 1)])  # of the numbers
    base = points(rows).transform_calculate(
        end="max(0, datum.share, datum.lost)", said=_SAID
    ).encode(
        y=alt.Y("name:N", sort=None, title=None,
                axis=alt.Axis(ticks=False, domain=False, labelLimit=260)),
        tooltip=tips(("name:N", "", "part"), ("share:Q", "+.3f"), ("lost:Q", "+.3f", "lost")),
    )  # fmt: skip
    bars = base.mark_bar(cornerRadius=2, height=12, cursor="pointer").encode(
        x=alt.X("share:Q", title="share of the difference", axis=alt.Axis(tickCount=5), scale=room),
        color=alt.condition(alt.datum.share > 0, alt.value(table[8]), alt.value(table[-8])),
    )
    marks = base.mark_point(shape="diamond", size=70, filled=True, color=chrome.ink, opacity=1)
    text = base.mark_text(align="left", dx=10, fontSize=12.5, color=chrome.ink)
    picked = alt.selection_point(name=BAR, fields=["kind", "layer", "head"], empty=False)
    chart = alt.layer(
        bars.add_params(picked), marks.encode(x=alt.X("lost:Q")),
        text.encode(x=alt.X("end:Q"), text=alt.Text("said:N")),
    )  # fmt: skip
    return quiet(chart, theme, width="container", height=26 * len(rows))
