"""Parsing: the tree that a model writes for a sentence, and where it looked for each bracket."""

from __future__ import annotations

import streamlit as st

from transformer.parsing.parser import is_parser
from ui.core import url_state
from ui.core.layout import draw_by_pointer
from ui.core.url_state import HEAD, LAYER
from ui.core.view import current_entries, current_view
from ui.frame.pages import require_frame
from ui.parsing.settings import NODE, as_words, through_parser
from ui.parsing.views import draw_borrowed, draw_parse, explain, offer_parsers, reading_of
from ui.work.cache import Plan, computed, get_trace, get_translator

require_frame()

url_state.show(LAYER, HEAD, NODE)
words, more = st.columns([6, 1], vertical_alignment="center")
with words:
    draw_by_pointer(
        "hint",
        "The same Transformer, writing a tree. **Point at a phrase** to see where it looked when "
        "it opened it.",
        "The same Transformer, writing a tree. **Tap a phrase** to see where it looked when it "
        "opened it.",
    )
with (
    more.container(horizontal=True, horizontal_alignment="right"),
    st.popover("What is this?", type="tertiary"),
):
    explain()
now, entries = current_view(), current_entries()
parser = now if is_parser(get_translator(now)) else through_parser(now, entries)
if parser is None:
    offer_parsers(now, entries)
else:
    if parser is not now:
        draw_borrowed(now, parser)
    view, split = as_words(parser)

    def ahead(_: object) -> Plan:
        """Read the tree in the same job as the trace."""
        yield reading_of(split)

    trace = get_trace(view, ahead)
    wanted = reading_of(split)
    draw_parse(view, trace, computed(view, wanted.name, wanted.args, wanted.make), split)
