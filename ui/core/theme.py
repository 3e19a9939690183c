"""The theme that the browser shows."""

from __future__ import annotations

import streamlit as st

from figures.palette import Theme


def current_theme() -> Theme:
    """Return the browser's theme; light if it reports none."""
    return "dark" if st.context.theme.type == "dark" else "light"
