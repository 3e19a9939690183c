"""The app's grid on random tensors, more than are sent together.

As in the app, the grid's message is made once and cached for all visitors, and a choice reruns a
fragment.
"""

from __future__ import annotations

import numpy as np
import streamlit as st

from ui.components.grid import MOST_AT_ONCE, Sheet, Tab, grid_component, grid_sheet
from ui.components.mount import show

KINDS, SIDE = ("Encoder", "Decoder", "Cross"), 512

st.set_page_config(layout="wide")


@st.cache_resource
def sheets() -> dict[str, Sheet]:
    """Return the three kinds of map, packed."""
    rng, tokens = np.random.default_rng(0), [f"t{i}" for i in range(SIDE)]
    maps = rng.dirichlet(np.full(SIDE, 0.1), (2, 4, SIDE)).astype(np.float32)
    assert len(KINDS) * maps.size > MOST_AT_ONCE
    return {kind: grid_sheet(maps, tokens, tokens, label=kind) for kind in KINDS}


def choose(kind: str) -> None:
    st.session_state["kind"] = kind


@st.fragment
def view(made: dict[str, Sheet]) -> None:
    kind = st.session_state.get("kind", KINDS[0])
    tabs = {each: Tab(each, each, made[each] if each == kind else None) for each in KINDS}
    shown = grid_component(tabs, (None, None), kind)
    show(shown, key="grid", on_choose=lambda chosen: choose(chosen.kind))
    st.caption(kind)


view(sheets())
