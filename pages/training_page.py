"""Training: a toy task to watch, real runs from their folders, and table 3."""

import streamlit as st

from figures.labels import plain
from ui.core import url_state
from ui.core.view import View
from ui.frame.page import Entry, Page
from ui.frame.steering import use_checkpoint
from ui.training import jobs
from ui.training.table3 import draw_table3
from ui.training.views import RUN, VIEW, draw_form, draw_run
from ui.training.watch import draw_watch


def draw_toy() -> None:
    """Draw the form for a new run, or the run in the URL."""
    why = jobs.refusal()
    run = jobs.JOBS.get(url_state.get(RUN))
    if run is not None:
        draw_run(run, use_checkpoint)
        return
    if why is not None:
        st.info(plain(why), icon=":material/lock:")
        return
    st.markdown(
        "A tiny Transformer learns a toy task from random weights, on this server's processor. "
        "**Press Start and watch the attention maps take shape.**"
    )
    if url_state.get(RUN):
        url_state.forget(RUN)
        st.caption("That run is no longer on this server.")
    draw_form()


def whole(view: View) -> None:
    """Draw one of the views."""
    {"toy": draw_toy, "watch": draw_watch, "table3": draw_table3}[url_state.get(VIEW)]()


PAGE = Page(
    "training", "Train a toy", ":material/model_training:", whole=whole,
    entries=(
        Entry("Experiments", 3, "Train a toy", {"training_view": "toy"}, "toy"),
        Entry("Experiments", 4, "Watch a run", {"training_view": "watch"}, "watch"),
        Entry("Lessons", 4, "Table 3: variations", {"training_view": "table3"}, "table3"),
    ),
    model="absent",
    choice=(VIEW,),
)  # fmt: skip
