"""Attention maps on the Beam search page: the choice of layer and head, and one named map."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from figures.attention import describe, heatmap
from figures.labels import READS_PREDICTS
from transformer.trace.records import Trace
from transformer.types import Floats
from ui.components.lens import MOST_TOKENS, Map
from ui.components.mount import show
from ui.core.layout import sized
from ui.core.presenter import SCALE, presenting
from ui.core.theme import current_theme
from ui.core.units import units_control
from ui.core.url_state import Cell
from ui.core.widgets import layer_and_head


def draw_axes(trace: Trace) -> Cell:
    """Draw the boxes for layer and head, and the control for the axes' units."""
    n_layers, n_heads = trace.cross.shape[:2]
    wide = round(140 * (SCALE if presenting() else 1))
    with st.container(horizontal=True, vertical_alignment="center"):
        cell = layer_and_head("beam", n_layers, n_heads, wide)
        units_control()
    return cell


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
        show(shown.lens(max_height), key=key)
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
