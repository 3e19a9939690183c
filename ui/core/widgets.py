"""Helpers that bind widgets to settings of the view."""

from __future__ import annotations

from typing import Any, TypeVar

import streamlit as st

from ui.core import url_state
from ui.core.glossary import term
from ui.core.url_state import HEAD, LAYER, Cell, Param

T = TypeVar("T")


def fill(key: str, value: object) -> None:
    """Set a widget's value, unless it has it already."""
    if key not in st.session_state or st.session_state[key] != value:
        st.session_state[key] = value


def bound(param: Param[T], *forgotten: Param[Any]) -> dict[str, Any]:
    """Return the arguments that bind a widget to `param`: its key, already filled, and callback.

    The store in `ui.core.url_state` stays the single source of truth: the widget shows its value,
    and a choice is written to it, and from there to the URL.

    Args: forgotten: settings that mean nothing once this one has changed.
    """
    key = f"{param.name}_widget"
    fill(key, url_state.get(param))

    def store() -> None:
        url_state.put(param, st.session_state[key])
        url_state.forget(*forgotten)

    return {"key": key, "on_change": store}


def layer_and_head(page: str, n_layers: int, n_heads: int, width: int = 140) -> Cell:
    """Draw the boxes that choose one layer and head, or means; return the choice, see `cell`.

    Args:
        page: prefix of the widgets' keys.
        width: of a box, px.
    """
    for name, param, count in (("Layer", LAYER, n_layers), ("Head", HEAD, n_heads)):
        _mean_or_one(f"{page}_{param.name}_box", name, param, count, width)
    return url_state.cell(n_layers, n_heads)


def _mean_or_one(key: str, name: str, param: Param[int | None], count: int, width: int) -> None:
    at = url_state.index(param, count)
    fill(key, 0 if at is None else at + 1)
    st.selectbox(
        name, range(count + 1), key=key, width=width, label_visibility="collapsed",
        format_func=lambda value: f"{name} {value}" if value else f"{name}: mean",
        on_change=lambda: url_state.put(param, st.session_state[key] or None),
    )  # fmt: skip


def draw_questions(*names: str) -> None:
    """Draw questions of the glossary, each folded up with its answer; meant for a popover."""
    for name in names:
        with st.expander(name):
            st.markdown(term(name))


def refill(*keys: str) -> None:
    """Have the widgets with these keys filled again; for those inside a popover.

    The browser creates a popover's widgets only when it opens, and loses values set by earlier
    runs, so every run has to set them. Call this before the widgets are drawn.
    """
    for key in keys:
        if key in st.session_state:
            del st.session_state[key]
