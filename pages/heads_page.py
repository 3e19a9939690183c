"""Roles of heads with controls, importance, and the sentences behind every number."""

from typing import Any

import streamlit as st

from transformer.trace.records import Trace
from ui.core import url_state
from ui.core.presenter import presenting
from ui.core.view import View
from ui.frame.page import Entry, Page
from ui.heads import views
from ui.heads.choice import HeadsChoice, head_of
from ui.heads.setup import chosen_study, draw_choice, draw_own, draw_setup
from ui.work.desk import fragment, get_trace
from ui.work.studies import Opened


@fragment
def draw(view: View, opened: Opened, trace: Trace) -> None:
    """In a fragment, draw the table, one head, and collapsed sections."""
    shows, measures = url_state.get(HeadsChoice.shows), opened.study.importance
    role, first = opened.study.role(shows), "removal" if "removal" in measures else ""
    unset = first if opened.tags else next(iter(measures), "")  # too few words for roles
    measure = shows if shows in measures else "" if shows else unset
    head = head_of(opened, role, measure)
    tag = opened.tags.get(head)
    tested = role or (tag.finding.role if tag else opened.study.roles[0])
    st.markdown(views.about_table(opened, role, measure, head))
    row: dict[str, Any] = {"horizontal": True, "vertical_alignment": "center"}
    above = None if measure and presenting() else st.container(key="after_choice", **row)
    table, beside = st.columns([7, 6], gap="small") if measure else [st.container() for _ in "ab"]
    with above or beside.container(key="after_choice", **row):
        views.draw_choice(opened, role, measure, head)
        draw_choice(view, opened)
        st.space("stretch")
        views.offer(view, opened, tested)
    with table:
        about = views.draw_table(opened, role, measure, head)
    with beside, st.container(key="result_head"):
        views.draw_head(view, opened, tested, head, trace)
    st.caption(about)
    if measure:
        views.draw_agreement(opened.study)
    views.draw_through_training(view, opened, tested, head)
    with st.expander("Sentences where this head looks from X to Y", icon=":material/search:"):
        views.draw_where(view, opened, head)
    url_state.write_url()


def whole(view: View) -> None:
    """Draw the study, or instructions for making one, and the visitor's own sentences."""
    study = chosen_study(view)
    if study is None:
        draw_setup(view)
    else:
        # Outside the fragment, so its progress and messages replace the page.
        draw(view, study, get_trace(view))
    draw_own()


PAGE = Page(
    "heads", "What heads do", ":material/query_stats:", whole=whole,
    entries=(Entry("Attention", 6),),
    choice=(HeadsChoice,),
)  # fmt: skip
