"""Table 1: what layers cost by length, how far a signal has to travel, and what maps cost here."""

from __future__ import annotations

import streamlit as st

from ui.complexity.layers import draw_layers, explain
from ui.complexity.maps import draw_maps
from ui.complexity.settings import VIEW, VIEWS
from ui.complexity.travel import draw_path
from ui.core import url_state
from ui.core.view import current_view
from ui.core.widgets import bound
from ui.frame.pages import require_frame

require_frame()

url_state.show(VIEW)
words, more = st.columns([6, 1], vertical_alignment="center")
words.markdown(
    "Why attention and not a recurrent network? Table 1 of the paper gives three reasons: fewer "
    "operations, none that wait for others, shorter paths. **Check them.**"
)
with (
    more.container(horizontal=True, horizontal_alignment="right"),
    st.popover("What is this?", type="tertiary"),
):
    explain()
st.segmented_control(
    "View", list(VIEWS), format_func=VIEWS.__getitem__, label_visibility="collapsed",
    required=True, wrap=True, **bound(VIEW),
)  # fmt: skip
view = current_view()
config = view.entry.config if view.checkpoint else None
if url_state.get(VIEW) == "path":
    draw_path()
elif url_state.get(VIEW) == "time":
    draw_layers()
elif config is not None:
    draw_maps(view, config)
else:
    missing = "No checkpoint is loaded"
    if view.checkpoint:
        missing = "This is no checkpoint of this project"
    st.info(f"{missing}, so its maps cannot be counted.")
