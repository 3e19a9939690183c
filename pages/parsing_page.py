"""Parsing: the tree that a model writes, and its attention for each bracket."""

import streamlit as st

from transformer.evaluation.parsing import is_parser
from ui.core.view import View, current_entries
from ui.core.widgets import draw_hint
from ui.frame.page import Entry, Page
from ui.parsing import views
from ui.work.desk import computed, get_trace, get_translator


def whole(now: View) -> None:
    """Draw the sentence's tree, by the chosen model or by an installed parser."""
    with st.container(key="after_lead"):
        draw_hint("parsing")
    entries = current_entries()
    parser = now if is_parser(get_translator(now)) else views.through_parser(now, entries)
    if parser is None:
        views.offer_parsers(now, entries)
        return
    view, split = views.as_words(parser)
    views.draw_parse(view, get_trace(view), computed(view, views.reading_of(split)), split)
    if parser is not now:
        views.draw_borrowed(now, parser)


PAGE = Page(
    "parsing", "Parsing", ":material/schema:", whole=whole,
    entries=(Entry("Beyond translation", 4),),
    needs=("internals",),
    choice=(views.ParsingChoice,),
)  # fmt: skip
