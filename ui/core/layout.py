"""Layout of a page's sections: a heading, text on the left and its picture on the right."""

from __future__ import annotations

from typing import TypeVar

import streamlit as st
from plotly.graph_objects import Figure
from streamlit.delta_generator import DeltaGenerator

from figures.charts import grow
from ui.core.presenter import SCALE, presenting

T = TypeVar("T")


def section(title: str, text: str) -> DeltaGenerator:
    """Draw a section's heading and text; return the container of its picture."""
    st.markdown(f"#### {title}")
    words, picture = st.columns([4, 9], gap="large")
    words.markdown(text)
    return picture.container()


def draw_by_pointer(name: str, mouse: str, touch: str) -> None:
    """Draw the text that fits the pointer, which the browser knows (see style.css).

    Args: name: unique on the page.
    """
    for pointer, text in (("mouse", mouse), ("touch", touch)):
        with st.container(key=f"by_{pointer}_{name}"):
            st.markdown(text)


def sized(chart: T) -> T:
    """Return an Altair chart or Plotly figure with text of the page's current size."""
    return grow(chart, SCALE if presenting() else 1)


def draw_plot(place: DeltaGenerator, figure: Figure, key: str, alt: str) -> None:
    """Draw a Plotly figure in its own colours; `alt` is its text for screen readers."""
    place.plotly_chart(sized(figure), key=key, theme=None, config={"displaylogo": False}, alt=alt)
