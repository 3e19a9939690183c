"""Views of Compare, in the order of the pages that declare them."""

from typing import NamedTuple

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from figures.labels import plain
from ui.core import url_state
from ui.core.url_state import Param
from ui.core.view import CHECKPOINT, SENTENCE, Side
from ui.frame.beside import Beside, Download, Pair, Setup, both_of
from ui.frame.editing import EDITS
from ui.frame.page import Page, all_pages, link_to, of_pages
from ui.frame.pages import why_not
from ui.frame.steering import PREFIX, TARGET


class Section(NamedTuple):
    """A view and the page that declares it."""

    page: Page
    beside: Beside

    @property
    def title(self) -> str:
        """The label on the control."""
        return self.beside.title or self.page.title


@of_pages
def sections() -> dict[str, Section]:
    """Return views by name in the URL."""
    return {
        beside.name or page.path: Section(page, beside)
        for page in all_pages() for beside in page.views
    }  # fmt: skip


#: The view on screen.
TOPIC: Param[str] = Param("topic", lambda raw: url_state.one_of(sections())(raw), "maps")


def draw_section(
    section: Section, setup: Setup, sides: tuple[Side, Side], controls: DeltaGenerator
) -> Download | None:
    """Draw a view with links to both sides' pages; return its download."""
    page, beside = section
    reasons = {}
    for side in sides:
        why = None if beside.everywhere else why_not(side.view, page)
        if reason := why or beside.lacks(side):
            reasons[side.letter] = reason
    pair = Pair(setup, sides, reasons, page.icon, controls)
    for side in sides:
        side.beside[:] = pair.shown
    if beside.above(pair) is False:
        return None
    if beside.rows or beside.below is None:
        pair.rows(*(beside.rows or (page.draw,)))
    if beside.below is not None:
        download = beside.below(pair)
    else:
        download = both_of(pair, beside.figure, section.title) if beside.figure else None
    if beside.settings is not None and pair.shown:
        pair.every(lambda side: _draw_link(side, section))
    return download


def _draw_link(side: Side, section: Section) -> None:
    page, view = section.page, side.view
    if (reason := why_not(view, page)) is not None:
        st.caption(plain(reason))
        return
    assert section.beside.settings is not None
    changes = {
        CHECKPOINT: view.checkpoint,
        SENTENCE: view.sentence,
        **section.beside.settings(side),
    }
    changes[EDITS] = url_state.get(EDITS) if view.entry.ref.edits else ""
    if side.letter == "B":
        changes |= {PREFIX: (), TARGET: view.target}
    link_to(page.path, f"{side.letter} on {page.title}", values=changes)
