"""Training: a tiny model learns a toy task while you watch and steer."""

from __future__ import annotations

import streamlit as st

from figures.markdown import plain
from ui.core import url_state
from ui.core.view import CHECKPOINT
from ui.frame.decoding import restart
from ui.frame.pages import require_frame
from ui.frame.steering import drop_ids
from ui.training.choice import RUN
from ui.training.form import draw_form
from ui.training.jobs import find, refusal
from ui.training.views import draw_run

require_frame()


def use(name: str) -> None:
    """Make a kept model the checkpoint of every page."""
    url_state.put(CHECKPOINT, name)
    drop_ids()
    restart()


words, more = st.columns([6, 1], vertical_alignment="center")
words.markdown(
    "A tiny Transformer learns a toy task from random weights, on this server's processor. "
    "**Press Start and watch the attention maps take shape.**"
)
with more.popover("What is this?", type="tertiary"):
    st.markdown(
        "Text is made by rule and new models are trained on it as in section 5 of the paper, "
        "with smaller batches and no dropout. Accuracy is the share of held-out sentences that "
        "are right from the first token to `</s>`, decoded greedily. The maps show one held-out "
        "sentence. The run is a process of its own: change the page or reload, and this address "
        "finds it again."
    )
why = refusal()
job = find(url_state.get(RUN)) if url_state.get(RUN) else None
if job is not None:
    draw_run(job, use)
elif why is not None:
    st.info(plain(why), icon=":material/lock:")
else:
    if url_state.get(RUN):
        url_state.forget(RUN)
        st.caption("That run is no longer on this server.")
    draw_form()
