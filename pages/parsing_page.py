"""Parsing: the tree that a model writes for a sentence, and where it looked for each bracket."""

from __future__ import annotations

from transformer.parsing.parser import is_parser
from ui.core.view import current_entries, current_view
from ui.core.widgets import draw_explained, draw_hint
from ui.frame.pages import require_frame
from ui.parsing.choice import ParsingChoice, as_words, through_parser
from ui.parsing.views import draw_borrowed, draw_parse, offer_parsers, reading_of
from ui.work.desk import computed, get_trace, get_translator

require_frame()

ParsingChoice.show()
draw_explained("parsing")
draw_hint("parsing")
now, entries = current_view(), current_entries()
parser = now if is_parser(get_translator(now)) else through_parser(now, entries)
if parser is None:
    offer_parsers(now, entries)
else:
    if parser is not now:
        draw_borrowed(now, parser)
    view, split = as_words(parser)
    draw_parse(view, get_trace(view), computed(view, reading_of(split)), split)
