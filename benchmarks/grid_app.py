"""What `benchmarks/views.py` measures of Headlight: the app's grid on given tensors.

    streamlit run benchmarks/grid_app.py -- FOLDER

`?tokens=30` draws the tensors of FOLDER/30.npz. As in the app, what the grid sends is made once and
kept for every visitor, a choice runs a fragment again, and all kinds of map travel together as long
as they are no more than the app sends at once.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import streamlit as st

from ui.components.grid import MOST_AT_ONCE, Sheet, Tab, grid_sheet
from ui.components.grid.mount import attention_grid

KINDS = ("Encoder", "Decoder", "Cross")

st.set_page_config(layout="wide")


@st.cache_resource
def sheets(path: str) -> tuple[dict[str, Sheet], bool]:
    """The three kinds of map, ready to be sent, and whether they go together."""
    with np.load(path) as held:
        source, target = held["source"].tolist(), held["target"].tolist()
        axes = {"Encoder": (source, source), "Decoder": (target, target), "Cross": (target, source)}
        maps = {kind: held[kind] for kind in KINDS}
    made = {kind: grid_sheet(maps[kind], *axes[kind], label=kind) for kind in KINDS}
    return made, sum(each.size for each in maps.values()) <= MOST_AT_ONCE


def choose(kind: str) -> None:
    """Keep which kind is shown."""
    st.session_state["kind"] = kind


@st.fragment
def view(made: dict[str, Sheet], at_once: bool) -> None:
    """The grid with its tabs, and a line that follows."""
    kind = st.session_state.get("kind", KINDS[0])
    attention_grid(
        {each: Tab(each, each, made[each] if at_once or each == kind else None) for each in KINDS},
        chosen=(None, None), on_choose=lambda cell: None, key="grid", kind=kind, on_kind=choose,
    )  # fmt: skip
    st.caption(kind)


view(*sheets(str(Path(sys.argv[1]) / f"{int(st.query_params['tokens'])}.npz")))
