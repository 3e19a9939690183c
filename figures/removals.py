"""Charts of the contribution of single model parts, and of the loss without them."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from figures.charts import Drawn, coloured, points, quiet, tips
from figures.labels import KIND_NAMES, signed
from figures.palette import CHROME, Theme, as_altair, ink_on, shade, signed_table, signs
from transformer.types import AttentionKind, Floats


def selection_of(kind: AttentionKind) -> str:
    """Return the selection name for heads of one kind."""
    return f"head_{kind}"


#: Selection names: a part among bars, the number of heads removed in either panel, a share.
PART, OUT, BAR = "part", ("out_0", "out_1"), "share"

#: Largest width of a table of changes, also in a wide window, and of weights, and cell size in px.
_WIDTHS, _WEIGHTS, _CELL = (232, 335), 84, (48, 21)


def head_needs(
    heads: Mapping[AttentionKind, Floats], looks: Mapping[AttentionKind, Floats],
    out: Collection[tuple[AttentionKind, int, int]],
    ring: Collection[tuple[AttentionKind, int, int]], theme: Theme, *, wide: bool = False,
) -> Drawn:  # fmt: skip
    """Draw the change without each head, beside its largest weight; a click selects a head.

    Args:
        heads: changes [L, H] by kind, in nats.
        looks: largest weights [L, H] by kind.
        out: removed heads, marked with a cross.
        ring: heads with an outline.
        wide: whether the chart is wide for its height.
    """
    chrome = CHROME[theme]
    limit = max(0.01, *(float(np.abs(changes).max()) for changes in heads.values()))
    change = alt.Scale(type="sqrt", domain=[-limit, limit], range=as_altair(signed_table(theme)))
    weight = alt.Scale(domain=[0, 1], range=[chrome.surface, chrome.ink], interpolate="rgb")
    tables: list[Drawn] = []
    last = list(heads)[-1]
    for kind, changes in heads.items():
        n_layers, n_heads = changes.shape
        room, narrow = (min(most, _CELL[0] * n_heads) for most in (_WIDTHS[wide], _WEIGHTS))
        rows = [
            {"kind": kind, "layer": layer + 1, "number": head + 1, "change": round(float(value), 4),
             "weight": round(float(looks[kind][layer, head]), 4),
             "ring": (kind, layer, head) in ring,
             "ink": ink_on(shade(float(value) / limit, theme, True)),
             "mark": "✕" if (kind, layer, head) in out
             else signed(float(value), 1) if abs(value) >= 0.05 and room >= 28 * n_heads else ""}
            for (layer, head), value in np.ndenumerate(changes)
        ]  # fmt: skip
        picked = alt.selection_point(
            name=selection_of(kind), fields=["kind", "layer", "number"], empty=False
        )
        once = kind == last or n_heads != heads[last].shape[1]  # columns are numbered once
        axis = alt.Axis(labelAngle=0, ticks=False, labelOverlap=True, labels=once)
        x = alt.X("number:O", title="head" if kind == last else None, axis=axis)
        y = alt.Y("layer:O", title="layer", axis=alt.Axis(ticks=False, labelOverlap=True))
        base = points(rows).encode(x=x, y=y, tooltip=tips(
            "layer:O", ("number:O", "", "head"), ("change:Q", "+.2f", "nats"),
            ("weight:Q", ".2f", "largest weight"),
        ))  # fmt: skip
        cells = base.mark_rect(stroke=chrome.surface, strokeWidth=2, cursor="pointer")
        color = _shade("change", "change, nats · square-root scale", change, room, kind == last)
        outline = base.mark_rect(aria=False, fillOpacity=0, stroke=chrome.ink, strokeWidth=3)
        outline = outline.transform_filter("datum.ring")
        marks = base.mark_text(fontSize=13, color=alt.ExprRef("datum.ink")).encode(text="mark:N")
        left = alt.layer(cells.encode(color=color).add_params(picked), outline, marks)
        right = base.mark_rect(stroke=chrome.surface).encode(
            x=alt.X("number:O", axis=None), y=alt.Y("layer:O", axis=None),
            color=_shade("weight", "weight", weight, narrow, kind == last),
        )  # fmt: skip
        beside = "" if tables else "Largest weight"
        for table, title, width in ((left, KIND_NAMES[kind], room), (right, beside, narrow)):
            font: Any = "bold" if table is left else "normal"
            tables.append(table.properties(
                title=alt.TitleParams(title, anchor="start", fontSize=13, fontWeight=font),
                width=width, height=_CELL[1] * n_layers,
            ))  # fmt: skip
    grid = alt.concat(*tables, columns=2, spacing=alt.RowColnumber(row=4, column=12))
    return quiet(grid.resolve_scale(color="independent"), theme, autosize="pad")


def _shade(field: str, title: str, scale: alt.Scale, length: float, legend: bool) -> alt.Color:
    gradient = alt.Legend(
        orient="bottom", direction="horizontal", gradientLength=length, gradientThickness=10,
        values=[share * end for end in scale.domain for share in (1, 0.25, 0)], format=".2~r",
        title=title, titleFontWeight="normal", titleLimit=240, offset=4,
    ) if legend else None  # fmt: skip
    return alt.Color(f"{field}:Q", scale=scale, legend=gradient)


def part_needs(names: Sequence[str], changes: Floats, theme: Theme) -> Drawn:
    """Draw the change without each part as bars; a click selects a part by its index."""
    chrome, (lowers, raises) = CHROME[theme], signs(theme)
    rows = [
        {"part": name, "n": n, "change": round(float(value), 4)}
        for n, (name, value) in enumerate(zip(names, changes, strict=True))
    ]
    base = points(rows).encode(
        y=alt.Y("part:N", sort=None, title=None, axis=alt.Axis(ticks=False, labelLimit=230)),
        tooltip=tips("part:N", ("change:Q", "+.2f", "nats")),
    )
    bars = base.mark_bar(stroke=chrome.muted, strokeWidth=0.5).encode(
        x=alt.X("change:Q", title="change without it, nats", axis=alt.Axis(tickCount=4)),
        color=alt.condition(alt.datum.change < 0, alt.value(lowers), alt.value(raises)),
    )
    # The whole row can be clicked, since a bar may be too short.
    picked = alt.selection_point(name=PART, fields=["n"], empty=False)
    whole = base.mark_rule(opacity=0, strokeWidth=20, cursor="pointer").encode(
        x=alt.value(0), x2=alt.value("width")
    )
    return quiet(alt.layer(bars, whole.add_params(picked)), theme, height=22 * len(rows) + 46)


def pruning_curves(
    values: Sequence[tuple[str, Mapping[str, Floats], Sequence[int], Floats]],
    marks: Sequence[int], n_heads: int, theme: Theme,
) -> Drawn:  # fmt: skip
    """Draw two measures against the number of heads left; a click selects a number removed.

    Args:
        values: per measure its title, its lines by name with a value for every number of heads
            removed, these numbers, and its values for random orders [marks, seeds].
        marks: numbers of heads removed in random order.
    """
    chrome, panels = CHROME[theme], []
    names = dict.fromkeys(name for _, lines, *_ in values for name in lines)
    colours = dict(zip(names, (chrome.accent, chrome.ink), strict=False))
    colours["random orders"] = chrome.muted
    colour = coloured("order:N", [*colours], [*colours.values()], orient="top", symbolOpacity=1)
    for name, (title, ours, places, others) in zip(OUT, values, strict=True):
        picked = alt.selection_point(name=name, fields=["out"], nearest=True, empty=False)
        left = alt.X("left:Q", title="heads left", scale=alt.Scale(domain=[n_heads, 0]),
                     axis=alt.Axis(tickMinStep=1, tickCount=6, grid=False))  # fmt: skip
        y = alt.Y("value:Q", title=title, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=5))
        rows = [
            {"out": int(n), "left": n_heads - int(n), "value": round(float(value), 4),
             "order": order}
            for order, line in ours.items() for n, value in zip(places, line, strict=True)
        ]  # fmt: skip
        wide = [
            {"left": n_heads - n, "low": float(order.min()), "high": float(order.max()),
             "value": float(order.mean()), "order": "random orders"}
            for n, order in zip(marks, others, strict=False)
        ]  # fmt: skip
        band = points(wide).mark_area(opacity=0.25).encode(
            x=left, y=alt.Y("low:Q", title=title, scale=alt.Scale(zero=False)), y2="high:Q",
            color=colour,
        )  # fmt: skip
        mean = points(wide).mark_line(strokeWidth=2).encode(x=left, y=y, color=colour)
        ours_at = points(rows).encode(
            x=left, y=y, color=colour,
            tooltip=tips(("left:Q", "d", "heads left"), ("value:Q", ".2f", title)),
        )  # fmt: skip
        dots = ours_at.mark_circle(size=36, opacity=1, cursor="pointer").add_params(picked)
        layers = alt.layer(band, mean, ours_at.mark_line(strokeWidth=2.5), dots)
        panels.append(layers.properties(width=360, height=240))
    joined = alt.hconcat(*panels, spacing=32).resolve_scale(color="shared")
    return quiet(joined, theme, autosize="pad")


#: Vega expression for the text beside a bar.
_TEXT = (
    "format(datum.share, '+.2f') + (isValid(datum.lost) ? '  ◆ ' + format(datum.lost, '+.2f') : '')"
)


def share_bars(rows: Sequence[Mapping[str, object]], theme: Theme) -> Drawn:
    """Draw shares in the difference of two logits as bars; a click selects one.

    Args: rows: with a unique "name", a "share", the "lost" difference without the part or None, and
        "kind", "layer" and "head", which a selection contains.
    """
    chrome, (lowers, raises) = CHROME[theme], signs(theme)
    values = [0.0, *(float(str(row[key] or 0)) for row in rows for key in ("share", "lost"))]
    low, high = min(values), max(values)
    room = alt.Scale(domain=[low, high + 0.4 * (high - low or 1)])  # with room for the numbers
    base = points(rows).transform_calculate(
        end="max(0, datum.share, datum.lost)", said=_TEXT
    ).encode(
        y=alt.Y("name:N", sort=None, title=None,
                axis=alt.Axis(ticks=False, domain=False, labelLimit=260)),
        tooltip=tips(("name:N", "", "part"), ("share:Q", "+.3f"), ("lost:Q", "+.3f", "lost")),
    )  # fmt: skip
    bars = base.mark_bar(cornerRadius=2, height=12, cursor="pointer").encode(
        x=alt.X(
            "share:Q",
            title=["share of the difference:", "blue lowers, orange raises"],
            axis=alt.Axis(tickCount=5),
            scale=room,
        ),
        color=alt.condition(alt.datum.share < 0, alt.value(lowers), alt.value(raises)),
    )
    marks = base.mark_point(shape="diamond", size=70, filled=True, color=chrome.ink, opacity=1)
    text = base.mark_text(align="left", dx=10, fontSize=12.5, color=chrome.ink)
    picked = alt.selection_point(name=BAR, fields=["kind", "layer", "head"], empty=False)
    chart = alt.layer(
        bars.add_params(picked), marks.encode(x=alt.X("lost:Q")),
        text.encode(x=alt.X("end:Q"), text=alt.Text("said:N")),
    )  # fmt: skip
    return quiet(chart, theme, width="container", height=26 * len(rows))
