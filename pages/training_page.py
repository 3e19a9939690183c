"""Training: a toy task learned while you watch, real runs from their folders, and table 3."""

from __future__ import annotations

import streamlit as st

from figures.markdown import plain
from ui.core import url_state
from ui.core.widgets import choose_one, draw_explained
from ui.frame.pages import require_frame
from ui.frame.steering import use_checkpoint
from ui.training.choice import RUN, VIEW, VIEWS
from ui.training.form import draw_form
from ui.training.jobs import find, refusal
from ui.training.table3 import draw_table3
from ui.training.views import draw_run
from ui.training.watch import draw_watch

require_frame()

ABOUT = {
    "toy": "Text is made by rule and new models are trained on it as in section 5 of the paper, "
    "with smaller batches and no dropout. Accuracy is the share of held-out sentences that are "
    "right from the first token to `</s>`, decoded greedily. The maps show one held-out sentence. "
    "The run is a process of its own: change the page or reload, and this address finds it again.",
    "watch": "Training writes a line every 50 updates and one after every epoch to `metrics.jsonl` "
    "in the run's folder. This view reads the file again every few seconds; it cannot disturb the "
    "run. The loss is the plain negative log-likelihood, without label smoothing.",
    "table3": "Table 3 of the paper changes one setting of the base model a row: A the number of "
    "heads at the same cost, B the width of the keys, C the size, D dropout and label smoothing, E "
    "learned positions instead of sinusoids. Perplexity is e to the mean negative log-likelihood "
    "of a token; lower is better. BLEU compares translations with a reference; higher is better.",
}


def draw_toy() -> None:
    """Draw the form of a new run, or the run that the address names."""
    why = refusal()
    job = find(url_state.get(RUN)) if url_state.get(RUN) else None
    if job is not None:
        draw_run(job, use_checkpoint)
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


url_state.show(VIEW)
views, more = st.columns([6, 1], vertical_alignment="center")
shown = choose_one("View", VIEW, VIEWS, views)
draw_explained(lambda: st.markdown(ABOUT[shown]), more)
{"toy": draw_toy, "watch": draw_watch, "table3": draw_table3}[shown]()
