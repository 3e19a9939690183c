"""The controls at the head of Compare, and the trace of B."""

from __future__ import annotations

import streamlit as st

from figures.markdown import code, plain, shorten
from transformer.errors import CheckpointError
from transformer.measures.compare import SIMILARITY_RULE
from transformer.measures.words import WORD_RULE
from transformer.trace.records import Trace
from ui.compare.choice import OTHER, PAIRING, SECOND, with_left
from ui.core import url_state
from ui.core.url_state import Param
from ui.core.view import MAX_CHARACTERS, is_blank
from ui.core.widgets import fill
from ui.frame.twice import Setup
from ui.work.cache import get_trace
from ui.work.models import tracer
from ui.work.roots import without_root

_PAIRINGS = {"models": "Two checkpoints", "sentences": "Two sentences"}


def draw_choice(setup: Setup) -> None:
    """Draw the controls for what is compared, and for B."""
    row = st.container(horizontal=True, vertical_alignment="center")
    fill("pairing_widget", setup.pairing)
    row.segmented_control(
        "Compare", setup.pairings, format_func=_PAIRINGS.__getitem__, required=True,
        label_visibility="collapsed", key="pairing_widget", on_change=_keep, args=(PAIRING,),
    )  # fmt: skip
    if setup.pairing == "models":
        row.markdown(f"**A** {plain(shorten(setup.left.checkpoint, 24))}", width="content")
        row.markdown("**B**", width="content")
        fill("other_widget", setup.right.checkpoint)
        row.selectbox(
            "Second checkpoint", setup.others, label_visibility="collapsed", key="other_widget",
            on_change=_keep, args=(OTHER,),
        )  # fmt: skip
    else:
        row.markdown("**B**", width="content")
        fill("second_widget", setup.right.sentence)
        row.text_input(
            "Second sentence", label_visibility="collapsed", key="second_widget",
            max_chars=MAX_CHARACTERS, on_change=_keep, args=(SECOND,),
            placeholder="Type a second sentence, such as the first with one word changed",
        )  # fmt: skip
    with row.popover("What is this?", type="tertiary"):
        _explain()
    if setup.refused:
        st.warning(
            f"The checkpoint {code(url_state.get(OTHER))} {setup.refused}; B is "
            f"{code(setup.right.checkpoint)}.",
            icon=":material/info:",
        )


def read_right(setup: Setup, left: Trace) -> tuple[Setup, Trace]:
    """Return the setup and B's trace. If there is none, the page says why and the run ends."""
    if setup.pairing == "sentences" and is_blank(setup.right.sentence):
        st.info("Type a second sentence above; it stands beside the one in the sidebar.")
        url_state.write_url()
        st.stop()
    try:
        tracer(setup.right)
    except CheckpointError as error:
        st.error(
            plain(without_root(str(error))) + ". Choose another checkpoint for B above.",
            icon=":material/error:",
        )
        url_state.write_url()
        st.stop()
    setup = with_left(setup, left)
    return setup, get_trace(setup.right)


def _explain() -> None:
    """Explain what can be compared, and how."""
    st.markdown(
        "Two checkpoints on one sentence, or one checkpoint on two: **see where they look alike, "
        "and where they part.**"
    )
    st.markdown(
        "**A** is what the sidebar says, **B** what you put beside it. Attention weights of the "
        "two can be subtracted where rows and columns mean the same: the same tokens, or else the "
        "same words. Where the translations differ, B can follow A's (*teacher forcing*): it reads "
        "A's translation, and its own predictions are not taken."
    )
    st.markdown(f"**Whole words.** {WORD_RULE}")
    st.markdown(f"**Alike.** {SIMILARITY_RULE}")
    st.latex(r"\mathrm{JSD}(p,q)=H\!\left(\tfrac{p+q}{2}\right)-\tfrac{1}{2}\bigl(H(p)+H(q)\bigr)")
    st.markdown(
        "**Matched.** Heads have no names: head 3 of one training run need not do what head 3 of "
        "another does. The Hungarian method pairs heads so that the sum of their similarities is "
        "the largest there is. Alike means that two heads look at the same words, not that they do "
        "the same with them."
    )


def _keep(param: Param[str]) -> None:
    """Store a widget's value."""
    url_state.put(param, st.session_state[f"{param.name}_widget"])
