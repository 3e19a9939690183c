"""Roles of heads with their controls, importance, and the sentences behind every number."""

from __future__ import annotations

import streamlit as st

from ui.core import url_state
from ui.core.view import View, current_view
from ui.core.widgets import draw_explained
from ui.frame.pages import require_frame
from ui.heads import views
from ui.heads.choice import HeadsChoice, head_of
from ui.heads.setup import chosen_study, draw_own, draw_setup, draw_source
from ui.work.cache import get_tracer
from ui.work.progress import fragment
from ui.work.studies import Opened

require_frame()


@fragment
def draw(view: View, opened: Opened) -> None:
    """Draw the table, one head, and what is folded below; a choice here reruns only this."""
    stored = opened.study.role(url_state.get(HeadsChoice.role))
    head = head_of(opened, stored.name if stored else "")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        role = views.draw_role(opened)
        views.draw_head_box(opened, head)
        shown = role or views.role_of(opened, head)
        st.space("stretch")
        views.offer(view, opened, shown)
    views.draw_table(opened, role, head)
    st.markdown(f"#### {head.off.place[:1].upper()}{head.off.place[1:]}")
    views.draw_findings(opened, head)
    views.draw_examples(view, opened, shown, head)
    views.draw_through_training(view, opened, shown, head)
    with st.expander("Sentences where this head looks from X to Y", icon=":material/search:"):
        views.draw_where(view, opened, head)
    with st.expander("Importance: does it matter?", icon=":material/content_cut:"):
        views.draw_importance(opened, head)
    url_state.write_url()


HeadsChoice.show()
draw_explained("heads")
st.markdown("Find heads with a **role**, such as “verb to subject”, tested on many sentences.")
now = current_view()
found = chosen_study(now)
if found is None:
    draw_setup(now)
else:
    get_tracer(now)  # outside the fragment, so that its progress and messages replace the page
    draw_source(now, found)
    draw(now, found)
draw_own(now)
