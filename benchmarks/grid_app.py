"""The app's grid on given tensors, for `benchmarks/views.py`.

    streamlit run benchmarks/grid_app.py -- FOLDER

`?tokens=30` draws the tensors of FOLDER/30.npz. As in the app, the grid's message is made once and
cached for all visitors, a choice reruns a fragment, and all kinds of map are sent together up to
the app's limit.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import streamlit as st

from ui.components.grid import MOST_AT_ONCE, Sheet, Tab, grid_component, grid_sheet
from ui.components.mount import show

KINDS = ("Encoder", "Decoder", "Cross")

st.set_page_config(layout="wide")


@st.cache_resource
def sheets(path: str) -> tuple[dict[str, Sheet], bool]:
    """Return the three kinds of map, packed, and whether they are sent together."""
    with np.load(path) as held:
        source, target = held["source"].tolist(), held["target"].tolist()
        axes = {"Encoder": (source, source), "Decoder": (target, target), "Cross": (target, source)}
        maps = {kind: held[kind] for kind in KINDS}
    made = {kind: grid_sheet(maps[kind], *axes[kind], label=kind) for kind in KINDS}
    return made, sum(each.size for each in maps.values()) <= MOST_AT_ONCE


def choose(kind: str) -> None:
    st.session_state["kind"] = kind


@st.fragment
def view(made: dict[str, Sheet], at_once: bool) -> None:
    kind = st.session_state.get("kind", KINDS[0])
    tabs = {
        each: Tab(each, each, made[each] if at_once or each == kind else None) for each in KINDS
    }
    shown = grid_component(tabs, (None, None), kind)
    show(shown, key="grid", on_choose=lambda chosen: choose(chosen.kind))
    st.caption(kind)


view(*sheets(str(Path(sys.argv[1]) / f"{int(st.query_params['tokens'])}.npz")))
