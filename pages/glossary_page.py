"""Glossary: terms of the app and the paper, with links to pages."""

from collections.abc import Sequence

import streamlit as st

from figures.labels import code
from ui.core import url_state
from ui.core.glossary import QUESTIONS, TERMS, Term, named_term, search_terms
from ui.core.url_state import Param
from ui.core.view import View
from ui.core.widgets import bound, coloured
from ui.frame.page import Entry, Page, link_to, page_at

SEARCH: Param[str] = Param("word", url_state.text(80), "")
#: The first term of each letter.
FIRST = {entry.name[0].upper(): entry for entry in reversed(TERMS)}


def draw_term(entry: Term) -> None:
    """Draw an entry: term, meaning, equation, and a link to its page."""
    with st.container(border=True, height="stretch", gap="xsmall", key=f"term_{entry.name}"):
        section = f" :gray[· section {entry.section}]" if entry.section else ""
        letter = entry.name[0].upper()
        anchor = letter if FIRST.get(letter) is entry else None
        st.subheader(f"{entry.name}{section}", anchor=anchor)
        st.markdown(entry.text)
        if entry.equation:
            st.markdown(coloured(f"$$\n{entry.equation}\n$$"))
        if entry.page:
            link_to(entry.page, f"See it: {page_at(entry.page).title}")


def draw_terms(entries: Sequence[Term]) -> None:
    """Draw entries in rows of three."""
    for start in range(0, len(entries), 3):
        row = entries[start : start + 3]
        for column, entry in zip(st.columns(3, gap="small"), row, strict=False):
            with column:
                draw_term(entry)


def whole(view: View) -> None:
    """Draw the search box and the entries."""
    words, box = st.columns([6, 3], vertical_alignment="center")
    words.markdown("The words of this app in plain English, and where the paper introduces them.")
    query = box.text_input(
        "Find a word", max_chars=80, placeholder="softmax, 3.2.1, beam …",
        label_visibility="collapsed", icon=":material/search:", **bound(SEARCH),
    )  # fmt: skip
    named = named_term(query)
    terms, questions = (
        [entry for entry in search_terms(query, entries) if entry is not named]
        for entries in (TERMS, QUESTIONS)
    )
    if named is not None:
        draw_term(named)
    elif not terms and not questions:
        st.info(
            f"No entry has {code(query)} in it. Try a shorter word.", icon=":material/search_off:"
        )
    if not query:
        with st.container(key="letters"):
            st.markdown(" ".join(f"[{letter}](#{letter})" for letter in sorted(FIRST)))
    draw_terms(terms)
    if questions:
        st.markdown("#### Questions")
        draw_terms(questions)


PAGE = Page(
    "glossary", "Glossary", ":material/menu_book:", whole=whole,
    entries=(Entry("Lessons", 2),),
    model="absent",
    choice=(SEARCH,),
)  # fmt: skip
