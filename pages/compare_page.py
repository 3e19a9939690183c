"""Compare: two checkpoints on one sentence, or two sentences through one checkpoint."""

import streamlit as st

from transformer.measures.compare import SIMILARITY_RULE
from transformer.measures.words import WORD_RULE
from ui.attention.choice import AttentionSettings
from ui.compare import choice
from ui.compare.texts import draw_difference, draw_texts
from ui.compare.views import MATCHING, NUMBERS
from ui.core import url_state
from ui.core.glossary import word_start
from ui.core.view import Side, View
from ui.core.widgets import bound
from ui.export.download import download_button
from ui.frame.beside import Setup
from ui.frame.page import Entry, Page
from ui.work.desk import fragment, get_trace


def sides_of(setup: Setup) -> tuple[Side, Side]:
    """Return sides A and B."""
    left, right = get_trace(setup.left), get_trace(setup.right)
    sides: list[Side] = []
    one = Side(setup.left, left, "A", beside=sides)
    return one, Side(setup.right, right, "B", follows=setup.follow, beside=sides)


@fragment
def story(setup: Setup) -> None:
    """Draw everything below the translations, in a fragment."""
    row = st.container(key="after_views", horizontal=True, vertical_alignment="center")
    names = {name: section.title for name, section in choice.sections().items()}
    row.selectbox(
        "View", list(names), format_func=names.__getitem__, label_visibility="collapsed",
        width=160, **bound(choice.TOPIC),
    )  # fmt: skip
    section = choice.sections()[url_state.get(choice.TOPIC)]
    controls = row.container(horizontal=True, vertical_alignment="center", width="content")
    aside = row.container(horizontal=True, horizontal_alignment="right")
    message = choice.warning(setup) if setup.follow or section.beside.follows else ""
    if message:
        st.warning(message, icon=":material/translate:")
    sides = sides_of(setup)
    download = choice.draw_section(section, setup, sides, controls)
    if start := word_start(token for side in sides for token in side.trace.src_tokens):
        st.caption(start)
    if download is not None:
        with aside:
            download_button(
                download.make, key="compare", name=download.name, n_numbers=download.n_numbers
            )
    url_state.write_url()


def whole(view: View) -> None:
    """Draw both translations and the chosen view below them."""
    every = [section.beside for section in choice.sections().values()]
    url_state.show(choice.TOPIC, *(param for beside in every for param in beside.params))
    setup = choice.read_setup(view)
    left = get_trace(setup.left)
    choice.prepare_right(setup, left)
    AttentionSettings.enter(left)
    with st.container(key="after_hint"):
        choice.draw_choice(setup)
    setup = choice.read_right(setup, left)
    url_state.settle(compared=[member.finished for member in setup.views])
    draw_texts(setup, sides_of(setup))
    picture = st.container()  # first on screen: the sentence about it and its switches are below
    draw_difference(setup, sides_of(setup))
    with picture:
        story(setup)


PAGE = Page(
    "compare", "Compare", ":material/compare:", whole=whole,
    entries=(Entry("Experiments", 2),),
    choice=(choice.CompareChoice,),
    notes=lambda: (f"**Whole words.** {WORD_RULE}", f"**Alike.** {SIMILARITY_RULE}"),
    beside=(MATCHING, NUMBERS),
)  # fmt: skip
