"""Word for word: which source word each word of the translation comes from."""

from typing import Any

import streamlit as st

from ui.alignment.views import AlignmentChoice, draw_errors, draw_links, map_of, row_now
from ui.core.view import Side
from ui.core.widgets import CellChoice, draw_hint
from ui.frame.page import Entry, Page
from ui.work.results import Computation


def first(side: Side) -> list[Computation[Any]]:
    """Return the computation of the map."""
    return [map_of(side)]


def draw(side: Side) -> None:
    """Draw the links of the sentence, and the errors of every head."""
    with st.container(key="after_hint"):
        draw_hint(row_now())
    draw_links(side)
    draw_errors(side.view)


PAGE = Page(
    "alignment", "Word for word", ":material/compare_arrows:", draw, first=first,
    entries=(Entry("Translate", 5),),
    maps=("cross",),
    choice=(AlignmentChoice, CellChoice),
)  # fmt: skip
