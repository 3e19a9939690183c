"""Compare: two checkpoints on one sentence, or two sentences through one checkpoint."""

from __future__ import annotations

import streamlit as st

from transformer.checkpoint import CheckpointError
from transformer.measures.compare import SIMILARITY_RULE
from transformer.measures.words import WORD_RULE
from transformer.records import Trace
from ui import state
from ui.attention_choice import settle_tokens
from ui.bound import bound
from ui.cache import get_trace
from ui.compare_choice import (
    BESIDE,
    FOLLOW,
    OTHER,
    PAIRING,
    PARAMS,
    SECOND,
    TOPIC,
    TOPICS,
    Setup,
    can_follow,
    kind_now,
    settle,
    shared_kinds,
)
from ui.compare_exhibits import offer_maps, offer_numbers
from ui.compare_heads import draw_heads
from ui.compare_numbers import draw_numbers
from ui.compare_texts import draw_texts
from ui.compare_views import (
    draw_displays,
    draw_kinds,
    draw_maps,
    draw_options,
    read_both,
)
from ui.controls import MAX_CHARACTERS, current_view, is_blank
from ui.decoding import fill
from ui.frame import require_frame
from ui.models import tracer
from ui.roots import without_root
from ui.state import Param
from ui.text import code, plain
from ui.units import UNITS

require_frame()

_PAIRINGS = {"models": "Two checkpoints", "sentences": "Two sentences"}
_TOPICS = {"maps": "Attention", "heads": "Heads matched", "numbers": "Numbers"}


def explain() -> None:
    """What can be compared, and how."""
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


def keep(param: Param[str]) -> None:
    """Keep what a widget says."""
    state.put(param, st.session_state[f"{param.name}_widget"])


def draw_choice(setup: Setup) -> None:
    """What is compared, and what stands on the right."""
    how, what, about = st.columns([4, 6, 2], vertical_alignment="center")
    fill("pairing_widget", setup.pairing)
    how.segmented_control(
        "Compare", setup.pairings, format_func=_PAIRINGS.__getitem__, required=True,
        label_visibility="collapsed", key="pairing_widget", on_change=keep, args=(PAIRING,),
    )  # fmt: skip
    if setup.pairing == "models":
        fill("other_widget", setup.right.checkpoint)
        what.selectbox(
            "Second checkpoint", setup.others, label_visibility="collapsed", key="other_widget",
            on_change=keep, args=(OTHER,), format_func=lambda name: f"B  {name}",
        )  # fmt: skip
    else:
        fill("second_widget", setup.right.sentence)
        what.text_input(
            "Second sentence", label_visibility="collapsed", key="second_widget",
            max_chars=MAX_CHARACTERS, on_change=keep, args=(SECOND,),
            placeholder="B  Type a second sentence, such as the first with one word changed",
        )  # fmt: skip
    with (
        about.container(horizontal=True, horizontal_alignment="right"),
        st.popover("What is this?", type="tertiary"),
    ):
        explain()
    if setup.refused:
        st.warning(
            f"The checkpoint {code(state.get(OTHER))} {setup.refused}; B is "
            f"{code(setup.right.checkpoint)}.",
            icon=":material/info:",
        )


def read_right(setup: Setup, left: Trace) -> tuple[Setup, Trace]:
    """The right side's trace. Where there is none the page says why and the run ends."""
    if setup.pairing == "sentences" and is_blank(setup.right.sentence):
        st.info("Type a second sentence above; it stands beside the one in the sidebar.")
        state.write_url()
        st.stop()
    try:
        tracer(setup.right.path, setup.right.device)
    except CheckpointError as error:
        st.error(
            plain(without_root(str(error))) + ". Choose another checkpoint for B above.",
            icon=":material/error:",
        )
        state.write_url()
        st.stop()
    if state.get(FOLLOW) and left.text.strip() and can_follow(setup.right):
        setup = setup.following(left.text)
    return setup, get_trace(setup.right)


@st.fragment
def story(setup: Setup) -> None:
    """Everything below the translations. Runs again by itself when something here is chosen."""
    left, right = get_trace(setup.left), get_trace(setup.right)
    kinds = shared_kinds(left, right)
    if not kinds:
        st.info("These two have no kind of attention in common.", icon=":material/info:")
        return
    topics, away = st.columns([5, 2], vertical_alignment="center")
    topics.segmented_control(
        "Compare what", TOPICS, format_func=_TOPICS.__getitem__, required=True,
        label_visibility="collapsed", **bound(TOPIC),
    )  # fmt: skip
    aside = away.container(horizontal=True, horizontal_alignment="right")
    topic, kind = state.get(TOPIC), kind_now(kinds)
    if topic == "numbers":
        draw_numbers(setup, left, right)
        with aside:
            offer_numbers(setup)
    else:
        display = state.get(BESIDE) if topic == "maps" else "matrix"
        with aside:
            draw_options()
        with st.container(horizontal=True):
            draw_kinds(kinds, kind)
            if topic == "maps":
                draw_displays()
        both = read_both(setup, left, right, kind, state.get(UNITS), display)
        if topic == "maps":
            with aside:
                offer_maps(both, display)
            draw_maps(both, display)
        else:
            draw_heads(both, aside)
    state.write_url()


state.show(*PARAMS)
st.markdown(
    "Two checkpoints on one sentence, or one checkpoint on two: **see where they look alike, and "
    "where they part.**"
)
now = current_view()
first = get_trace(now)
settle_tokens(first)
chosen = settle(now)
draw_choice(chosen)
chosen, second = read_right(chosen, first)
draw_texts(chosen, first, second)
story(chosen)
