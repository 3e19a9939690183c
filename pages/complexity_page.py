"""Table 1: layer cost by length, path lengths, and the cost of this sentence's maps."""

import streamlit as st

from ui.complexity.choice import VIEW, VIEWS
from ui.complexity.views import draw_layers, draw_maps, draw_path
from ui.core.view import View
from ui.core.widgets import choose_one
from ui.frame.page import Entry, Page


def whole(view: View) -> None:
    """Draw the chosen topic."""
    topic = choose_one("View", VIEW, VIEWS)
    config = view.entry.config if view.checkpoint else None
    if topic == "path":
        draw_path()
    elif topic == "time":
        draw_layers()
    elif config is not None:
        draw_maps(view, config)
    else:
        st.info(
            "To count attention maps, choose a Headlight model."
            if view.checkpoint
            else "No model is loaded, so there are no maps to count."
        )


PAGE = Page(
    "complexity", "Cost", ":material/speed:", whole=whole,
    entries=(Entry("Lessons", 3, "Table 1: cost"),),
    model="absent",
    choice=(VIEW,),
)  # fmt: skip
