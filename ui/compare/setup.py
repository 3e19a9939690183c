"""The controls at the head of Compare, and the trace of B."""

from __future__ import annotations

from typing import NoReturn

import streamlit as st

from figures.markdown import code, plain, shorten
from transformer.errors import CheckpointError
from transformer.measures.compare import SIMILARITY_RULE
from transformer.measures.words import WORD_RULE
from transformer.trace.records import Trace
from ui.compare.choice import CompareChoice, with_left
from ui.core import url_state
from ui.core.view import MAX_CHARACTERS, is_blank
from ui.core.widgets import bound, choose_one, fill
from ui.frame.twice import Setup
from ui.work.models import tracer
from ui.work.roots import without_root

_PAIRINGS = {"models": "Two checkpoints", "sentences": "Two sentences"}


def draw_choice(setup: Setup) -> None:
    """Draw the controls for what is compared, and for B."""
    row = st.container(horizontal=True, vertical_alignment="center")
    names = {pairing: _PAIRINGS[pairing] for pairing in setup.pairings}
    choose_one("Compare", CompareChoice.pairing, names, row, chosen=setup.pairing, wrap=False)
    if setup.pairing == "models":
        row.markdown(f"**A** {plain(shorten(setup.left.checkpoint, 24))}", width="content")
    row.markdown("**B**", width="content")
    if setup.pairing == "models":
        binding = bound(CompareChoice.other)
        fill(binding["key"], setup.right.checkpoint)
        row.selectbox("Second checkpoint", setup.others, label_visibility="collapsed", **binding)
    else:
        binding = bound(CompareChoice.second)
        fill(binding["key"], setup.right.sentence)
        row.text_input(
            "Second sentence", max_chars=MAX_CHARACTERS, label_visibility="collapsed", **binding,
            placeholder="Type a second sentence, such as the first with one word changed",
        )  # fmt: skip
    with row.popover("What is this?", type="tertiary"):
        _explain()
    if setup.refused:
        st.warning(
            f"The checkpoint {code(url_state.get(CompareChoice.other))} {setup.refused}; B is "
            f"{code(setup.right.checkpoint)}.",
            icon=":material/info:",
        )


def read_right(setup: Setup, left: Trace) -> Setup:
    """Return the setup, B's trace being made. If it cannot be, say why and end the run."""
    if setup.pairing == "sentences" and is_blank(setup.right.sentence):
        st.info("Type a second sentence above; it stands beside the one in the sidebar.")
        _end()
    try:
        tracer(setup.right)
    except CheckpointError as error:
        st.error(
            plain(without_root(str(error))) + ". Choose another checkpoint for B above.",
            icon=":material/error:",
        )
        _end()
    return with_left(setup, left)


def _end() -> NoReturn:
    url_state.write_url()
    st.stop()


def _explain() -> None:
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
