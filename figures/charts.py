"""The frame shared by all Altair charts, and larger text for projectors.

What is not a channel object, such as "x:Q" or `alt.condition(...)`, Altair looks up in the whole
schema of Vega-Lite, a few milliseconds for each; so channels are made as objects here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import altair as alt
from altair.utils import schemapi
from plotly.graph_objects import Figure

from figures.palette import CHROME, Theme

Chart = TypeVar("Chart")
#: A finished Altair chart.
Drawn = alt.Chart | alt.LayerChart | alt.FacetChart

FONT = "Source Sans, Source Sans Pro, system-ui, sans-serif"

# Otherwise every part of a chart is validated when it is made, besides the whole chart in the end.
schemapi.disable_debug_mode()

#: Sizes in px that have to grow with the text.
_LENGTHS = ("height", "dx", "dy", "labelLimit", "titlePadding", "labelPadding")


def grow(chart: Chart, scale: float) -> Chart:
    """Return a copy of a chart or Plotly figure with text `scale` times as large, and room for it.

    Data and widths stay as they are.
    """
    if scale == 1:
        return chart
    if isinstance(chart, Figure):
        figure: Chart = _grow_figure(chart, scale)
        return figure
    source: Any = chart
    spec = source.to_dict()
    data = {name: spec.pop(name) for name in ("data", "datasets") if name in spec}
    larger: Chart = type(source).from_dict({**_grown(spec, scale), **data})
    return larger


def _grown(spec: Any, scale: float) -> Any:
    if isinstance(spec, list):
        return [_grown(item, scale) for item in spec]
    if not isinstance(spec, Mapping):
        return spec
    result = {}
    for name, value in spec.items():
        sized = name.lower().endswith("fontsize") or name in _LENGTHS
        if sized and isinstance(value, int | float) and not isinstance(value, bool):
            result[name] = value * scale
        else:
            result[name] = value if name in ("data", "datasets") else _grown(value, scale)
    return result


def _grow_figure(figure: Figure, scale: float) -> Any:
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
    """Return a chart of rows of data, with no marks yet."""
    return alt.Chart(alt.InlineData(values=list(rows)))


def tips(*fields: str | tuple[str, str] | tuple[str, str, str]) -> list[alt.Tooltip]:
    """Return what hovering shows: each a field, (field, format), or (field, format, title)."""
    tooltips = []
    for field in fields:
        name, *more = (field,) if isinstance(field, str) else field
        options_in_order = zip(("format", "title"), more, strict=False)
        options: dict[str, Any] = {key: value for key, value in options_in_order if value}
        tooltips.append(alt.Tooltip(name, **options))
    return tooltips


def either(test: str, yes: Any, no: Any) -> dict[str, Any]:
    """Return arguments of a value's channel that is `yes` where the test holds, else `no`.

    Args: test: a Vega expression, such as "datum.chosen".
    """
    return {"condition": {"test": test, "value": yes}, "value": no}


def accented(test: str, theme: Theme, other: str = "") -> alt.ColorValue:
    """Return the accent colour where a test holds, else another one, muted by default."""
    chrome = CHROME[theme]
    return alt.ColorValue(**either(test, chrome.accent, other or chrome.muted))


def coloured(field: str, names: Sequence[str], colours: Sequence[str], **legend: Any) -> alt.Color:
    """Return one colour for each name, with a legend without a title unless `legend` has one."""
    scale = alt.Scale(domain=list(names), range=list(colours))
    return alt.Color(field, scale=scale, legend=alt.Legend(**{"title": None, **legend}))


def marker(
    x: str | alt.X, at: float, theme: Theme, text: str = "", *, below: bool = False
) -> list[alt.Chart]:
    """Return a vertical rule at a value, with text at its upper end, or the lower one.

    Args: x: a field, or the axis that the chart around it has.
    """
    chrome = CHROME[theme]
    x = alt.X(f"{x}:Q") if isinstance(x, str) else x
    field = str(x.shorthand).partition(":")[0]
    base = points([{field: at, **({"said": text} if text else {})}]).encode(x=x)
    place = {"dy": -14} if below else {"y": 10}
    look: dict[str, Any] = {"align": "left", "dx": 6, "color": chrome.ink, "fontSize": 13, **place}
    words = base.mark_text(**look).encode(text=alt.Text("said:N"))
    if below:
        words = words.encode(y=alt.value("height"))
    rule = base.mark_rule(color=chrome.muted, strokeDash=[4, 4])
    return [rule, words] if text else [rule]


def named_bars(
    rows: Sequence[Mapping[str, Any]], x: alt.X, theme: Theme, *, colour: alt.ColorValue,
    written: str, height: float, hover: Sequence[alt.Tooltip] = (),
) -> Drawn:  # fmt: skip
    """Draw horizontal bars in the order of the rows, with their names and numbers.

    Args:
        rows: each with a "name", a "value", and what `colour` and `hover` need.
        written: format of the numbers.
    """
    base = points(rows).encode(
        y=alt.Y("name:N", sort=None, title=None, axis=alt.Axis(labelLimit=240, ticks=False)),
        x=x, tooltip=list(hover) or alt.Undefined,
    )  # fmt: skip
    label = base.mark_text(align="left", dx=6, color=CHROME[theme].ink, fontSize=13)
    bars = base.mark_bar(cornerRadiusEnd=3).encode(color=colour)
    numbers = label.encode(text=alt.Text("value:Q", format=written))
    return quiet(alt.layer(bars, numbers), theme, height=height)


def quiet(chart: Drawn, theme: Theme, **properties: Any) -> Drawn:
    """Apply the app's colours and sizes, and properties such as a height; return the chart."""
    chrome, styled = CHROME[theme], chart.properties(**properties)
    # All at once: each `configure_...` of a layered chart copies all its data.
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
