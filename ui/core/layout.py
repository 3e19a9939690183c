"""A page as a story: a heading, words on the left, and the picture they are about on the right."""

from __future__ import annotations

from typing import TypeVar

import streamlit as st
from plotly.graph_objects import Figure
from streamlit.delta_generator import DeltaGenerator

from figures.charts import grow
from ui.core.presenter import SCALE, presenting

T = TypeVar("T")


def section(title: str, text: str) -> DeltaGenerator:
    """One step of the story. Returns the place for its picture."""
    st.markdown(f"#### {title}")
    words, picture = st.columns([4, 9], gap="large")
    words.markdown(text)
    return picture.container()


def sized(chart: T) -> T:
    """An Altair chart or a Plotly figure with text as large as the page's is now."""
    return grow(chart, SCALE if presenting() else 1)


def draw_plot(place: DeltaGenerator, figure: Figure, key: str, alt: str) -> None:
    """Draw a Plotly figure, in the colours that it brings along; `alt` says what it shows."""
    place.plotly_chart(sized(figure), key=key, theme=None, config={"displaylogo": False}, alt=alt)
