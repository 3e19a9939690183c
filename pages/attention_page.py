"""Attention: all heads at once, lines between tokens, or one matrix; tokens or whole words."""

from __future__ import annotations

import streamlit as st

from transformer.measures.words import WORD_RULE
from transformer.trace.records import Trace
from ui.attention.cached import get_maps, wanted
from ui.attention.choice import DISPLAYS, kinds_of
from ui.attention.downloads import offer
from ui.attention.maps import story_of
from ui.attention.settings import (
    DISPLAY,
    KIND,
    PARAMS,
    choose_kind,
    read_choice,
    settle_kind,
    settle_tokens,
)
from ui.attention.views import draw_aggregate, draw_dim, draw_grid, draw_heads, draw_matrix
from ui.core import url_state
from ui.core.units import units_control
from ui.core.view import View, current_view
from ui.core.widgets import bound
from ui.frame.pages import require_frame
from ui.work.cache import Plan, get_trace, prepare
from ui.work.progress import fragment

require_frame()

WAYS = {"grid": draw_grid, "heads": draw_heads, "matrix": draw_matrix}
HINTS = {
    "grid": "Each small map is one head. **Click one to read it large**, or shift and click to "
    "combine several.",
    "heads": "Each colour is a head in the legend. **Point at a token to see its lines alone**; "
    "a click keeps them.",
    "matrix": "One map with its numbers. **Click tokens on either axis** to add up their weight in "
    "every head.",
}


def explain() -> None:
    """The mechanism in the paper's words and numbering."""
    st.markdown(
        "A **query** is compared with every **key**. The softmax turns the comparisons into "
        "weights that sum to 1, and the query's position takes in the **values** by these weights "
        "(section 3.2.1, equation 1). Each head does so with projections of its own (3.2.2)."
    )
    st.latex(
        r"\mathrm{Attention}(Q,K,V)=\mathrm{softmax}\!\left(\frac{QK^{\top}}{\sqrt{d_k}}\right)V"
    )
    st.markdown(
        "One row of a map is one query and sums to 1. Colours mean the same weight in every map, "
        "from 0 to 1. Section 3.2.3 names the three uses: in **encoder self-attention** queries, "
        "keys and values come from the source; in **decoder self-attention** from the "
        "translation, with later positions set to −∞ before the softmax; in **cross-attention** "
        "queries come from the translation, keys and values from the encoder's output."
    )
    st.markdown(f"**Whole words.** {WORD_RULE}")


def draw_kinds(trace: Trace) -> None:
    """Which attention of those that there are."""
    kinds = kinds_of(trace)
    st.segmented_control(
        "Kind of attention", kinds, label_visibility="collapsed", required=True, wrap=True,
        format_func={kind: story_of(trace, kind).name for kind in kinds}.__getitem__,
        **{**bound(KIND), "on_change": choose_kind},
    )  # fmt: skip


def opening(trace: Trace) -> Plan:
    """What the page opens with, made in the job of the trace."""
    settle_tokens(trace)
    settle_kind(trace)
    yield from wanted(trace, read_choice(trace))


@fragment
def maps(view: View) -> None:
    """Controls and one of the views. Runs again by itself when something here is chosen."""
    trace = get_trace(view)
    settle_kind(trace)
    left, right = st.columns([6, 1], vertical_alignment="center")
    hint = left.empty()
    with (
        right.container(horizontal=True, horizontal_alignment="right"),
        st.popover("What is this?", icon=":material/info:", type="tertiary"),
    ):
        explain()
    left, right = st.columns([2, 5], vertical_alignment="center")
    left.segmented_control(
        "View", DISPLAYS, format_func=str.capitalize, label_visibility="collapsed", required=True,
        **bound(DISPLAY),
    )  # fmt: skip
    asides = right.container(
        horizontal=True, horizontal_alignment="right", vertical_alignment="center"
    )
    with asides:
        units_control()
        draw_dim()
    choice = read_choice(trace)
    prepare(view, wanted(trace, choice))
    found = get_maps(view, trace, choice)
    hint.markdown(HINTS[choice.display])
    if choice.display != "heads":
        with asides, st.popover("Combine", icon=":material/stacks:", type="tertiary"):
            draw_aggregate(choice, found)
    with asides:
        offer(view, choice, found)
    # Where there are several kinds, the grid itself changes from one to another, at once.
    if choice.display != "grid" or len(kinds_of(trace)) == 1:
        draw_kinds(trace)
        st.caption(found.story.about)
    WAYS[choice.display](view, choice, found)
    url_state.write_url()


url_state.show(*PARAMS)
now = current_view()
get_trace(now, opening)  # here, where its progress and messages replace the page
maps(now)
