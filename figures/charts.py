"""Parts and style shared by all Altair charts, and larger text of Plotly figures.

Charts are built from channel objects: Altair takes a few milliseconds to look up any other encoding
("x:Q", `alt.condition(...)`) in the Vega-Lite schema.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import altair as alt
from altair.utils import schemapi
from plotly.graph_objects import Figure

from figures.palette import CHROME, Theme, as_altair, attention_table

#: A finished Altair chart.
Drawn = alt.Chart | alt.LayerChart | alt.FacetChart

FONT = "Source Sans, Source Sans Pro, system-ui, sans-serif"

# Validate the finished chart only, not each of its parts as well.
schemapi.disable_debug_mode()


def grow(figure: Figure, scale: float) -> Figure:
    """Return a copy of a Plotly figure with its text enlarged by `scale`.

    The height grows half as much as the text; data and width do not change.
    """
    if scale == 1:
        return figure
    larger = Figure(figure)
    layout = larger.layout
    size = (layout.font.size or 12) * scale
    larger.update_layout(font_size=size, hoverlabel_font_size=size)
    if layout.height:
        larger.update_layout(height=layout.height * (1 + (scale - 1) / 2))
    for axis in (*larger.select_xaxes(), *larger.select_yaxes()):
        if axis.title.font.size:
            axis.title.font.size *= scale
    for trace in larger.data:
        title = getattr(getattr(trace, "colorbar", None), "title", None)
        if title is not None and title.font.size:
            title.font.size *= scale
    return larger


def points(rows: Sequence[Mapping[str, Any]]) -> alt.Chart:
    """Return a chart of data rows, without marks."""
    return alt.Chart(alt.InlineData(values=list(rows)))


def tips(*fields: str | tuple[str, str] | tuple[str, str, str]) -> list[alt.Tooltip]:
    """Return a tooltip per field, (field, format) or (field, format, title)."""
    tooltips = []
    for field in fields:
        name, *more = (field,) if isinstance(field, str) else field
        named = zip(("format", "title"), more, strict=False)
        options: dict[str, Any] = {key: value for key, value in named if value}
        tooltips.append(alt.Tooltip(name, **options))
    return tooltips


def either(test: str, yes: Any, no: Any) -> dict[str, Any]:
    """Return the arguments of a value channel: `yes` where a Vega expression holds, else `no`."""
    return {"condition": {"test": test, "value": yes}, "value": no}


def accented(test: str, theme: Theme, other: str = "") -> alt.ColorValue:
    """Return a colour condition: accent where a Vega expression is true, otherwise `other`."""
    chrome = CHROME[theme]
    return alt.ColorValue(**either(test, chrome.accent, other or chrome.muted))


def coloured(field: str, names: Sequence[str], colours: Sequence[str], **legend: Any) -> alt.Color:
    """Return one colour per name, and a legend, without a title unless `legend` has one."""
    scale = alt.Scale(domain=list(names), range=list(colours))
    return alt.Color(field, scale=scale, legend=alt.Legend(**{"title": None, **legend}))


def weight_scale(theme: Theme) -> alt.Scale:
    """Return the attention scale over weights 0 to 1."""
    return alt.Scale(type="sqrt", domain=[0, 1], range=as_altair(attention_table(theme)))


def marker(x: str | alt.X, at: float, theme: Theme, text: str = "") -> list[alt.Chart]:
    """Return a vertical rule at a value, with text at its upper end.

    Args: x: a field, or the x axis of the chart.
    """
    chrome = CHROME[theme]
    x = alt.X(f"{x}:Q") if isinstance(x, str) else x
    field = str(x.shorthand).partition(":")[0]
    base = points([{field: at, **({"said": text} if text else {})}]).encode(x=x)
    look: dict[str, Any] = {"align": "left", "dx": 6, "y": 10, "color": chrome.ink, "fontSize": 13}
    words = base.mark_text(**look).encode(text=alt.Text("said:N"))
    rule = base.mark_rule(color=chrome.muted, strokeDash=[4, 4])
    return [rule, words] if text else [rule]


def bars(
    values: Mapping[str, float], title: str | None, theme: Theme, *, marked: Collection[str] = (),
    written: str = ".3g", height: int = 260, **x: Any,
) -> Drawn:  # fmt: skip
    """Draw named numbers as horizontal bars in their order, with the numbers beside them.

    Args:
        title: title of the x axis.
        marked: names with the accent colour.
        written: number format.
        x: options of the x axis; by default it begins at 0 and leaves room for the numbers.
    """
    rows = [
        {"name": name, "value": float(value), "marked": name in marked}
        for name, value in values.items()
    ]
    room = alt.Scale(zero=True, domainMax=1.08 * max(values.values(), default=1))
    axis = alt.Axis(labelLimit=240, labelPadding=6, ticks=False)
    base = points(rows).encode(
        y=alt.Y("name:N", sort=None, title=None, axis=axis),
        x=alt.X("value:Q", title=title, **{"axis": alt.Axis(tickCount=6), "scale": room, **x}),
        tooltip=tips("name:N", ("value:Q", ".4~g")),
    )  # fmt: skip
    label = base.mark_text(align="left", dx=6, color=CHROME[theme].ink, fontSize=13)
    shapes = base.mark_bar(cornerRadiusEnd=3).encode(color=accented("datum.marked", theme))
    numbers = label.encode(text=alt.Text("value:Q", format=written))
    return quiet(alt.layer(shapes, numbers), theme, height=height, padding={"left": 8})


def quiet(chart: Drawn, theme: Theme, **properties: Any) -> Drawn:
    """Return a chart in the app's colours and text sizes, with properties such as a height."""
    chrome, styled = CHROME[theme], chart.properties(**properties)
    # In one assignment: every `configure_...` of a layered chart copies all its data.
    styled.config = alt.Config(
        background="transparent",
        font=FONT,
        view=alt.ViewConfig(stroke=None),
        axis=alt.AxisConfig(
            labelColor=chrome.ink, titleColor=chrome.ink, gridColor=chrome.rule,
            domainColor=chrome.muted, tickColor=chrome.muted, labelFontSize=13, titleFontSize=13,
            titleFontWeight="normal",
        ),
        legend=alt.LegendConfig(
            labelColor=chrome.ink, titleColor=chrome.ink, labelFontSize=13, titleFontSize=13
        ),
    )  # fmt: skip
    return styled
