"""Table 1: what layers cost by length, how far a signal has to travel, and what maps cost here."""

from __future__ import annotations

import streamlit as st

from ui.complexity.choice import VIEW, VIEWS
from ui.complexity.views import draw_layers, draw_maps, draw_path
from ui.core import url_state
from ui.core.view import current_view
from ui.core.widgets import choose_one, draw_explained
from ui.frame.pages import require_frame

require_frame()

url_state.show(VIEW)
draw_explained("complexity")
shown = choose_one("View", VIEW, VIEWS)
view = current_view()
config = view.entry.config if view.checkpoint else None
if shown == "path":
    draw_path()
elif shown == "time":
    draw_layers()
elif config is not None:
    draw_maps(view, config)
else:
    st.info(
        "Counting maps needs a Headlight model."
        if view.checkpoint
        else "No model is loaded, so there are no maps to count."
    )
