"""What `benchmarks/views.py` measures of Headlight: the app's grid on given tensors.

    streamlit run benchmarks/grid_app.py -- FOLDER

`?tokens=30` draws the tensors of FOLDER/30.npz. As in the app, what the grid sends is made once and
kept for every visitor, and a choice runs a fragment again.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import streamlit as st

from ui.components.grid import Sheet, attention_grid, grid_sheet

KINDS = ("Encoder", "Decoder", "Cross")

st.set_page_config(layout="wide")


@st.cache_resource
def sheets(path: str) -> dict[str, Sheet]:
    """The three kinds of map, ready to be sent."""
    with np.load(path) as held:
        source, target = held["source"].tolist(), held["target"].tolist()
        axes = {"Encoder": (source, source), "Decoder": (target, target), "Cross": (target, source)}
        return {kind: grid_sheet(held[kind], *axes[kind], label=kind) for kind in KINDS}


@st.fragment
def view(made: dict[str, Sheet]) -> None:
    """The choice and the grid."""
    chosen = st.segmented_control("Kind", KINDS, default=KINDS[0], required=True)
    attention_grid(made[chosen], chosen=(None, None), on_choose=lambda cell: None, key="grid")


view(sheets(str(Path(sys.argv[1]) / f"{int(st.query_params['tokens'])}.npz")))
