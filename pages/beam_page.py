"""Beam search: the tree of hypotheses, and why the best one won."""

import streamlit as st

from ui.beam import panels
from ui.beam.beside import BESIDE, why_no_tree
from ui.beam.choice import PANELS, BeamChoice, follow, pair_up, prepare_tree
from ui.core import url_state
from ui.core.doubts import cut_notice, headline
from ui.core.view import Side
from ui.core.widgets import choose_one, draw_text
from ui.frame.page import Entry, Page
from ui.work.desk import computed


def first(side: Side) -> tuple[()]:
    """Compute the tree and choose its nodes."""
    if side.trace.search is not None:
        prepare_tree(side.view, computed(side.view, panels.TREE))
    return ()


def draw(side: Side) -> None:
    """Draw the sentence, the reason for the choice, the tree, and a panel below it."""
    view, trace = side.view, side.trace
    words, asides = st.columns([2, 1], vertical_alignment="center")
    with words.container(key="headline_long"):
        draw_text(headline(trace) or "(an empty translation)", view.spoken[1])
    if cut := cut_notice(trace):
        st.warning(cut, icon=":material/content_cut:")
    aside = asides.container(horizontal=True, horizontal_alignment="right", gap="xsmall")
    if (why := why_no_tree(side)) is not None:
        st.info(why, icon=":material/account_tree:")
        return
    search = panels.search_of(view, trace)
    if url_state.get(BeamChoice.panel) == "compare":
        pair_up(search.tree)
    with aside:
        panels.offer_tree(search)
    with st.container(key="after_lead"):
        panels.draw_why(search)
    panels.draw_tree(search, follow)
    left, right = st.columns([3, 1], vertical_alignment="center")
    panel = choose_one("Panel", BeamChoice.panel, PANELS, left)
    download = right.container(horizontal=True, horizontal_alignment="right")
    drawn = {"node": panels.node_panel, "compare": panels.compare_panel}
    drawn.get(panel, panels.finished_panel)(search)
    with download:
        panels.offer_panel(search)


PAGE = Page(
    "beam", "How it chose", ":material/account_tree:", draw, first=first,
    aliases=("beam-search",),
    entries=(Entry("Translate", 4),),
    needs=("search",),
    choice=(BeamChoice,),
    beside=(BESIDE,),
)  # fmt: skip
