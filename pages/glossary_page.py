"""Glossary: the words of the app and of the paper, and where to see what they mean."""

from __future__ import annotations

import streamlit as st

from figures.markdown import code
from ui.core import url_state
from ui.core.glossary import Term, search_terms
from ui.core.url_state import Param
from ui.core.widgets import bound
from ui.frame.pages import PAGES, require_frame

require_frame()


def _parse_search(raw: str) -> str:
    if len(raw) > 80:
        raise ValueError("too long")
    return raw


SEARCH: Param[str] = Param("word", _parse_search, "")
SPEC_OF = {spec.url_path: spec for spec in PAGES}


def draw_term(entry: Term) -> None:
    """One entry: the word, what it means, its equation, and the page that shows it."""
    with st.container(border=True, height="stretch", gap="xsmall"):
        section = f" :gray[· section {entry.section}]" if entry.section else ""
        st.markdown(f"**{entry.name}**{section}")
        st.markdown(entry.text)
        if entry.equation:
            st.latex(entry.equation)
        spec = SPEC_OF.get(entry.page)
        if spec is not None:
            st.page_link(spec.file, label=f"See it: {spec.title}", icon=spec.icon)


url_state.show(SEARCH)
words, box = st.columns([5, 3], vertical_alignment="center")
words.markdown(
    "The words of this app in plain English, with the section of the paper that brings them. "
    "**Type part of a word to find it.**"
)
query = box.text_input(
    "Find a word", max_chars=80, placeholder="softmax, 3.2.1, beam …",
    label_visibility="collapsed", icon=":material/search:", **bound(SEARCH),
)  # fmt: skip
found = search_terms(query)
if not found:
    st.info(f"No entry has {code(query)} in it. Try a shorter word.", icon=":material/search_off:")
for start in range(0, len(found), 3):
    for column, entry in zip(st.columns(3, gap="small"), found[start : start + 3], strict=False):
        with column:
            draw_term(entry)
