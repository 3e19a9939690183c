"""Page sections: a heading, a picture, and its text beside it."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import streamlit as st
from plotly.basedatatypes import BaseFigure
from plotly.graph_objects import Figure
from plotly.io import to_json
from streamlit.delta_generator import DeltaGenerator

from figures.attention import describe, heatmap
from figures.charts import grow
from figures.palette import Theme
from transformer.worker.job import offer_turn
from ui.components.lens import MOST_TOKENS, Map, Selection
from ui.components.mount import show
from ui.core.presenter import SCALE, presenting
from ui.platform.assets import vega_lite_of

T = TypeVar("T")


def section(title: str, text: str) -> DeltaGenerator:
    """Yield to other runs, then draw heading and text and return the picture's container.

    A phone has the text below the picture, and so does a class, whose pictures are wide.
    """
    offer_turn()
    st.markdown(f"#### {title}")
    beside = [st.container(), st.container()]
    picture, words = beside if presenting() else st.columns([9, 4], gap="large")
    words.markdown(text)
    return picture.container()


def sized(chart: T) -> T:
    """Return a chart or figure to be sent; Plotly's text is scaled to the page.

    The browser enlarges other charts, see presenting.css. Under its zoom Plotly would misplace
    the pointer.
    """
    if isinstance(chart, ReadyChart | ReadyFigure):
        return chart
    if isinstance(chart, Figure):
        return cast("T", grow(chart, text_scale()))
    return cast("T", _Unchecked(chart))


def text_scale() -> float:
    """Return the page's text magnification."""
    return SCALE if presenting() else 1


class _Unchecked:
    """An Altair chart that skips schema validation.

    Validation takes a third of a chart page's time, and tests validate every kind of chart.
    """

    def __init__(self, chart: Any) -> None:
        self._chart = chart

    def to_dict(self) -> dict[str, Any]:
        """Return the chart's specification."""
        spec: dict[str, Any] = self._chart.to_dict(validate=False)
        return spec


class ReadyChart:
    """An Altair chart serialised in advance, with its data in Arrow format."""

    def __init__(self, chart: Any) -> None:
        self._spec = vega_lite_of(chart)
        self.nbytes = len(repr(self._spec))

    def to_dict(self) -> dict[str, Any]:
        """Return a shallow copy of the chart's specification."""
        return dict(self._spec)


class ReadyFigure(BaseFigure):  # type: ignore[misc]
    """A Plotly figure serialised in advance; read-only."""

    def __init__(self, figure: Figure) -> None:
        self._spec: dict[str, Any] = figure.to_dict()
        self._size = len(to_json(self._spec, validate=False))

    @property
    def nbytes(self) -> int:
        """Serialised size in bytes."""
        return self._size

    def to_dict(self) -> dict[str, Any]:
        """Return the figure's specification."""
        return self._spec


def current_theme() -> Theme:
    """Return the browser's theme, light by default."""
    return "dark" if st.context.theme.type == "dark" else "light"


def draw_chart(
    chart: Any, alt: str, where: Any = st, key: str | None = None, **layout: Any
) -> None:
    """Draw an Altair chart in its own colours; `alt` is for screen readers."""
    where.altair_chart(sized(chart), key=key, theme=None, alt=alt, **layout)


def clicked(
    chart: Any, selections: Iterable[str], alt: str, key: str, where: Any = st, **layout: Any
) -> list[dict[str, Any]]:
    """Draw an Altair chart, and return the clicked data of its selections, at most one of each."""
    names = [*selections]
    event = where.altair_chart(
        sized(chart),
        theme=None,
        on_select="rerun",
        selection_mode=names,
        alt=alt,
        key=key,
        **layout,
    )
    return [data[0] for data in map(event["selection"].get, names) if data]


def draw_map(
    attention: Map, key: str, *, max_height: int = 420, selected: Selection | None = None,
    on_choose: Callable[[Selection], None] | None = None, on_pair: Callable[[], None] | None = None,
    **layout: Any,
) -> None:  # fmt: skip
    """Draw one attention map: in the lens if it fits, otherwise as a zoomable chart.

    Args:
        max_height: lens height limit in px.
        selected, on_choose: token selection in the lens.
        on_pair: called when the lens reports a cell, see `Map.lens`.
        layout: Plotly layout of the chart.
    """
    if attention.signed or max(attention.weights.shape) <= MOST_TOKENS:
        events: dict[str, Any] = {} if on_pair is None else {"on_pair_change": on_pair}
        lens = attention.lens(max_height, selected, asks=on_pair is not None)
        show(lens, key=key, on_choose=on_choose, **events)
        return
    axes = attention.weights, attention.query_tokens, attention.key_tokens
    figure = heatmap(
        *axes, current_theme(), query_title=attention.query_title, key_title=attention.key_title,
        dimmed_keys=attention.dimmed_keys,
    )  # fmt: skip
    draw_plot(st.container(), figure.update_layout(**layout), f"{key}_large",
              f"{attention.name}: {describe(*axes)}.")  # fmt: skip


def draw_plot(place: DeltaGenerator, plot: Figure, key: str, alt: str) -> None:
    """Draw a Plotly figure in its own colours; `alt` is for screen readers."""
    place.plotly_chart(sized(plot), key=key, theme=None, config={"displayModeBar": False}, alt=alt)
