"""Beam search: the hypotheses that were kept, dropped or ended, as a tree; why the best won."""

from __future__ import annotations

from functools import partial

import streamlit as st

from figures.outcomes import why_the_winner_won
from transformer.trace.records import Trace
from ui.beam.downloads import offer_panel, offer_tree
from ui.beam.panels import (
    TREE,
    compare_panel,
    draw_tree,
    finished_panel,
    node_panel,
    search_of,
)
from ui.beam.settings import DROPPED, LOOK, PANEL, PANELS, A, B, follow, settle, start_of
from ui.core import url_state
from ui.core.units import UNITS
from ui.core.url_state import HEAD, LAYER
from ui.core.view import View, current_view
from ui.core.widgets import bound
from ui.frame.pages import require_frame
from ui.work.cache import Plan, get_trace
from ui.work.progress import fragment

require_frame()


def explain() -> None:
    """The search in the paper's words and numbering."""
    st.markdown(
        "**Beam search** (section 6.1) keeps the *b* most probable beginnings. At every step each "
        "of them is continued by its most probable tokens, all continuations are ranked by their "
        "log-probability, and the best *b* live on; below the dotted line is what was dropped. "
        "What ends in `</s>` is set aside, and what ended is compared by"
    )
    st.latex(
        r"\mathrm{score}(Y)=\frac{\log P(Y\mid X)}{lp(Y)},\qquad "
        r"lp(Y)=\left(\frac{5+|Y|}{6}\right)^{\alpha}"
    )
    st.markdown(
        "The **length penalty** *lp* (Wu et al. 2016; the paper takes α = 0.6 and a beam of 4) "
        "makes up for each token's log-probability being below 0: without it, short translations "
        "would win too often. |Y| counts `</s>`. All hypotheses of one step are equally long, so "
        "α decides between what ended, never what is dropped. The search stops once nothing alive "
        "can still win.\n\n"
        "Columns are steps and rows are ranks. Click a node to choose it as A, shift and click "
        "for B; arrow keys move, A and B change what they move, D shows what was dropped, and "
        "+, − and F zoom."
    )


def say_why_there_is_none(view: View, trace: Trace) -> None:
    """Why there is no tree, and how to get one."""
    if trace.forced:
        st.info(
            "**No search to show:** this translation was given as a whole (teacher forcing), so "
            "nothing was compared. Take the given target away on the Translate page, and the model "
            "searches for a translation of its own.",
            icon=":material/account_tree:",
        )
        return
    st.info(
        f"**The record of this search was left out:** with a beam of {view.beam_size} over "
        f"{len(trace.src_tokens)} source and {len(trace.tgt_tokens)} target tokens it is too large "
        "to keep. Take a smaller beam under *Decoding* on the left, or a shorter sentence.",
        icon=":material/account_tree:",
    )


def opening(view: View, trace: Trace) -> Plan:
    """The tree that the page opens with, made in the job of the trace."""
    if trace.search is not None:
        settle(view, (yield TREE))


@fragment
def story(view: View) -> None:
    """The page. Runs again by itself when something in it is chosen."""
    trace = get_trace(view)
    words, asides = st.columns([2, 1], vertical_alignment="center")
    with words.container(key="headline_long"):
        st.text(trace.text or "(an empty translation)")
    aside = asides.container(horizontal=True, horizontal_alignment="right", gap="xsmall")
    with aside.popover("What is this?", type="tertiary"):
        explain()
    if trace.search is None:
        say_why_there_is_none(view, trace)
        return
    search = search_of(view, trace)
    start = start_of(view, search.tree)
    with aside:
        offer_tree(search)
    st.markdown(why_the_winner_won(search.tree, search.decode))
    draw_tree(search, start, follow)
    left, right = st.columns([3, 1], vertical_alignment="center")
    left.segmented_control(
        "Panel", PANELS, format_func=PANELS.__getitem__, required=True,
        label_visibility="collapsed", **bound(PANEL),
    )  # fmt: skip
    away = right.container(horizontal=True, horizontal_alignment="right")
    panels = {"node": node_panel, "compare": compare_panel, "finished": finished_panel}
    panels[url_state.get(PANEL)](search)
    with away:
        offer_panel(search)
    url_state.write_url()


url_state.show(A, B, DROPPED, PANEL, LOOK, LAYER, HEAD, UNITS)
now = current_view()
get_trace(now, partial(opening, now))  # here, where its progress and messages replace the page
story(now)
