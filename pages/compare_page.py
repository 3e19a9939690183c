"""Compare: two checkpoints on one sentence, or two sentences through one checkpoint."""

from __future__ import annotations

import streamlit as st

from ui.attention.choice import AttentionSettings
from ui.compare.choice import CompareChoice, begin, opened, prepare_right, read_setup
from ui.compare.sections import SECTIONS, TOPIC, section_of
from ui.compare.setup import draw_choice, read_right, warning
from ui.compare.texts import draw_texts
from ui.core import url_state
from ui.core.glossary import word_start
from ui.core.side import Side
from ui.core.view import current_view
from ui.core.widgets import bound
from ui.export.download import download_button
from ui.frame.pages import require_frame
from ui.frame.twice import Setup
from ui.translate.player import TWICE, read_link
from ui.work.desk import fragment, get_trace

require_frame()


def sides_of(setup: Setup) -> tuple[Side, Side]:
    """Return sides A and B."""
    left, right = get_trace(setup.left), get_trace(setup.right)
    return Side(setup.left, left, "A"), Side(setup.right, right, "B", follows=setup.follow)


@fragment
def story(setup: Setup) -> None:
    """Draw everything below the translations; a fragment, so a choice here reruns only this."""
    row = st.container(key="compare_views", horizontal=True, vertical_alignment="center")
    names = {section.name: section.label for section in SECTIONS}
    row.selectbox(
        "View", list(names), format_func=names.__getitem__, label_visibility="collapsed",
        width=190, **bound(TOPIC),
    )  # fmt: skip
    section = section_of(url_state.get(TOPIC))
    controls = row.container(horizontal=True, vertical_alignment="center", width="content")
    aside = row.container(horizontal=True, horizontal_alignment="right")
    anew = opened(section.name)
    said = warning(setup) if setup.follow or section.follows else ""
    if said:
        st.warning(said, icon=":material/translate:")
    sides = sides_of(setup)
    download = section.draw(section.open(setup, sides, controls, anew=anew))
    if start := word_start(token for side in sides for token in side.trace.src_tokens):
        st.caption(start)
    if download is not None:
        with aside:
            download_button(
                download.make, key="compare", name=download.name, n_numbers=download.n_numbers
            )
    url_state.write_url()


shown = dict.fromkeys(
    (*CompareChoice.params(), TOPIC, *(param for each in SECTIONS for param in each.params))
)
url_state.show(*shown)
if url_state.get(TOPIC) == TWICE.name:
    read_link()
chosen = read_setup(current_view())
first = get_trace(chosen.left)
prepare_right(chosen, first)
AttentionSettings.enter(first)
draw_choice(chosen)
chosen = read_right(chosen, first)
begin(list(shown), SECTIONS, chosen)
draw_texts(chosen, sides_of(chosen))
story(chosen)
