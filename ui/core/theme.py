"""The theme that the browser shows."""

from __future__ import annotations

import streamlit as st

from figures.palette import Theme


def current_theme() -> Theme:
    """Light or dark, as the browser shows the app; light where it does not say."""
    return "dark" if st.context.theme.type == "dark" else "light"
