"""Attention maps on the Beam search page: the choice of layer and head, and one named map."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import streamlit as st

from figures.attention import describe, heatmap
from figures.labels import READS_PREDICTS
from transformer.trace.records import Trace
from transformer.types import Floats
from ui.components.grid import Cell
from ui.components.lens import MOST_TOKENS, Map
from ui.components.lens.mount import attention_lens
from ui.core import url_state
from ui.core.layout import sized
from ui.core.presenter import SCALE, presenting
from ui.core.theme import current_theme
from ui.core.units import units_control
from ui.core.url_state import HEAD, LAYER, Param
from ui.core.widgets import fill


def layer_and_head(trace: Trace) -> Cell:
    """Draw the boxes for layer and head, and the control for the axes' units.

    Returns: the 0-based layer and head; None is the mean over all, also used if the model has no
        such layer or head.
    """
    n_layers, n_heads = trace.cross.shape[:2]
    wide = round(140 * (SCALE if presenting() else 1))
    with st.container(horizontal=True, vertical_alignment="center"):
        for name, param, count in (("Layer", LAYER, n_layers), ("Head", HEAD, n_heads)):
            key = f"beam_{param.name}_box"
            stored = url_state.get(param)
            fill(key, stored if stored is not None and stored <= count else 0)
            st.selectbox(
                name, range(count + 1), key=key, width=wide, label_visibility="collapsed",
                format_func=partial(_option, name), on_change=_take_map, args=(param, key),
            )  # fmt: skip
        units_control()
    return stored_cell(trace)


def stored_cell(trace: Trace) -> Cell:
    """Return the stored layer and head, as `layer_and_head` does."""
    n_layers, n_heads = trace.cross.shape[:2]
    return _stored_index(LAYER, n_layers), _stored_index(HEAD, n_heads)


def _stored_index(param: Param[int | None], count: int) -> int | None:
    number = url_state.get(param)
    return number - 1 if number is not None and number <= count else None


def _option(name: str, value: int) -> str:
    return f"{name} {value}" if value else f"{name}: mean"


def _take_map(param: Param[int | None], key: str) -> None:
    url_state.put(param, st.session_state[key] or None)


def show_map(
    weights: Floats,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    name: str,
    keys: str,
    key: str,
    causal: bool = False,
    max_height: int = 420,
) -> None:
    """Draw one map under its name: in the lens if it fits, otherwise as a zoomable chart."""
    st.markdown(f"**{name}**")
    if max(weights.shape) <= MOST_TOKENS:
        shown = Map(
            weights, query_tokens, key_tokens, name=name, query_title=READS_PREDICTS,
            key_title=keys, causal=causal,
        )  # fmt: skip
        attention_lens(shown, key=key, max_height=max_height)
        return
    figure = heatmap(
        weights,
        query_tokens,
        key_tokens,
        current_theme(),
        query_title=READS_PREDICTS,
        key_title=keys,
    )
    figure.update_layout(height=max(170, min(520, 120 + 9 * len(query_tokens))))
    st.plotly_chart(
        sized(figure), key=f"{key}_large", theme=None,
        alt=f"{name}: {describe(weights, query_tokens, key_tokens)}.",
    )  # fmt: skip
