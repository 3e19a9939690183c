"""Widgets that show and store a setting of the view."""

from __future__ import annotations

from typing import Any, TypeVar

import streamlit as st

from ui.core import url_state
from ui.core.glossary import term
from ui.core.url_state import Param

T = TypeVar("T")


def fill(key: str, value: object) -> None:
    """Let a widget show what the store says."""
    if key not in st.session_state or st.session_state[key] != value:
        st.session_state[key] = value


def bound(param: Param[T]) -> dict[str, Any]:
    """Arguments for a widget that holds `param`: its key, already filled, and its callback.

    The store in `ui.core.url_state` stays the one source of truth: the widget shows what it says,
    and what
    the user chooses goes there, and from there into the URL.
    """
    key = f"{param.name}_widget"
    fill(key, url_state.get(param))

    def store() -> None:
        url_state.put(param, st.session_state[key])

    return {"key": key, "on_change": store}


def draw_questions(*names: str) -> None:
    """Draw questions of the glossary, each folded up with its answer; meant for a popover."""
    for name in names:
        with st.expander(name):
            st.markdown(term(name))


def refill(*keys: str) -> None:
    """Have the widgets with these keys filled again, for those inside a popover.

    The browser makes what a popover holds only when it opens, so a value that an earlier run gave
    a widget is lost there: every run has to say it. Call this before the widgets are drawn.
    """
    for key in keys:
        if key in st.session_state:
            del st.session_state[key]
