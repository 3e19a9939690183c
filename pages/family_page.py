"""Family: models that kept one stack of the paper's blocks, and what changed since 2017."""

from __future__ import annotations

import streamlit as st

from ui.core import url_state
from ui.core.view import current_entries, current_view
from ui.core.widgets import choose_one, draw_explained
from ui.family.choice import PART, PARTS, ExpectsChoice, StacksChoice
from ui.family.views import draw_changes, draw_expects, draw_stacks
from ui.frame.pages import require_frame

require_frame()


url_state.show(PART)
parts, more = st.columns([6, 1], vertical_alignment="center")
part = choose_one("Part", PART, PARTS, parts)
draw_explained("family", more)
view, entries = current_view(), current_entries()
if part == "expects":
    ExpectsChoice.show()
    draw_expects(view, entries)
elif part == "stacks":
    StacksChoice.show()
    draw_stacks(view, entries)
else:
    draw_changes(view, entries)
