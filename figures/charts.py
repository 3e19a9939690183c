"""The style shared by all Altair charts, and larger text for projectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import altair as alt
from altair.utils import schemapi
from plotly.graph_objects import Figure

from figures.attention import FONT
from figures.palette import CHROME, Theme

Chart = TypeVar("Chart")

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
    made: Any = chart
    spec = made.to_dict()
    data = {name: spec.pop(name) for name in ("data", "datasets") if name in spec}
    larger: Chart = type(made).from_dict({**_grown(spec, scale), **data})
    return larger


def _grown(spec: Any, scale: float) -> Any:
    """Return a part of a chart's specification with its text enlarged."""
    if isinstance(spec, list):
        return [_grown(each, scale) for each in spec]
    if not isinstance(spec, Mapping):
        return spec
    found = {}
    for name, value in spec.items():
        sized = name.lower().endswith("fontsize") or name in _LENGTHS
        if sized and isinstance(value, int | float) and not isinstance(value, bool):
            found[name] = value * scale
        else:
            found[name] = value if name in ("data", "datasets") else _grown(value, scale)
    return found


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


def quiet(chart: Any, theme: Theme) -> Any:
    """Apply the app's colours and sizes to a new Altair chart, in place; return it."""
    chrome = CHROME[theme]
    # Set in place and all at once: each `configure_...` of a layered chart copies all its data.
    chart.config = alt.Config(
        background="transparent",
        font=FONT,
        view=alt.ViewConfig(stroke=None),
        axis=alt.AxisConfig(
            labelColor=chrome.ink,
            titleColor=chrome.ink,
            gridColor=chrome.rule,
            domainColor=chrome.muted,
            tickColor=chrome.muted,
            labelFontSize=13,
            titleFontSize=13,
            titleFontWeight="normal",
        ),
        legend=alt.LegendConfig(
            labelColor=chrome.ink, titleColor=chrome.ink, labelFontSize=13, titleFontSize=13
        ),
    )
    return chart
