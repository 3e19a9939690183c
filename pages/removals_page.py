"""Heads off: the effect of removing each part of the model."""

import streamlit as st

from ui.core.url_state import STEP
from ui.core.view import View, said_next
from ui.frame.editing import draw_changes, first_of_changes, said_of_changes
from ui.frame.page import Entry, Page
from ui.removals.pruning import draw_pruning
from ui.removals.views import NEEDS, draw_heads, draw_parts, draw_reasons, draw_together
from ui.work.desk import get_trace, prepare


def whole(view: View) -> None:
    """Draw the effects of edits, and of removing each part."""
    trace = get_trace(view)
    prepare(view, [NEEDS, *first_of_changes(view)])
    said, first = "**Choose a part to take it out.**", "Blue: without it,"
    if view.entry.ref.edits:  # in its place, so that nothing moves
        said = said_of_changes(view, trace, get_trace(view.original))
        first = "**The maps take out one more part.** Blue:"
    with st.container(key="result_said"):
        st.markdown(f"{said}  \n{first} the translation is less probable; orange: more.")
    if hint := said_next(view.sentence):
        st.caption(hint)
    step = draw_heads(view, trace)
    if view.entry.ref.edits:
        original = get_trace(view.original)
        with st.container(key="result_edits"):
            st.markdown(said)
            draw_changes(view, trace, original)
            draw_reasons(view, trace, original)
            draw_together(view)
    draw_parts(view, trace, step)
    draw_pruning(view)


PAGE = Page(
    "removals", "Heads off", ":material/content_cut:", whole=whole,
    entries=(Entry("Experiments", 1),),
    needs=("internals",),
    choice=(STEP,),
)  # fmt: skip
