"""Heads off: each part of the model taken out in turn, and what a translation needs."""

from __future__ import annotations

from typing import Any

import streamlit as st

from ui.core import url_state
from ui.core.side import Side
from ui.core.url_state import STEP
from ui.core.view import Request, current_view
from ui.core.widgets import draw_explained
from ui.frame.changes import draw_changes, first_of_changes, said_of_changes
from ui.frame.pages import require_frame
from ui.removals.pruning import draw_pruning
from ui.removals.views import (
    NEEDS,
    draw_choice,
    draw_heads,
    draw_parts,
    draw_reasons,
    draw_together,
)
from ui.work.desk import get_trace, prepare
from ui.work.results import Computation

require_frame()


def first(side: Side) -> list[Computation[Any] | Request]:
    """Return the needs, and what edits change."""
    return [NEEDS, *first_of_changes(side.view)]


url_state.show(STEP)
draw_explained("removals")
now = current_view()
trace = get_trace(now)
prepare(now, first(Side(now, trace)))
st.markdown(
    "Which parts does this translation need? Each is taken out in turn: the stronger the blue, the "
    "more it is needed. **Choose a head, a word, a network or a layer to take it out.**"
)
if now.entry.ref.edits:
    whole = get_trace(now.original)
    st.markdown(said_of_changes(now, trace, whole))
    draw_changes(now, trace, whole, one_line=True)
    draw_reasons(now, trace, whole)
    draw_together(now)
step = draw_choice(trace)
draw_heads(now, trace, step)
draw_parts(now, trace, step)
draw_pruning(now)
