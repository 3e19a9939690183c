"""Attention: all heads, lines between tokens, or one matrix, by tokens or whole words."""

from __future__ import annotations

from typing import Any

import streamlit as st

from transformer.measures.words import WORD_RULE
from transformer.trace.records import Trace
from ui.attention import views
from ui.attention.choice import (
    AttentionSettings,
    ensure_kind,
    first_of_maps,
    get_maps,
    read_choice,
    toggle_find,
)
from ui.attention.editing import draw_effect, draw_hint, draw_texts
from ui.attention.find import draw_find
from ui.attention.maps import kind_text_of, kinds_of
from ui.compare.attention import MAPS
from ui.core import url_state
from ui.core.side import Side
from ui.core.url_state import KIND
from ui.core.view import Request, said_next
from ui.core.widgets import choose_one, units_control
from ui.frame.changes import first_of_changes
from ui.frame.page import Entry, Page
from ui.frame.through_time import finished
from ui.work.desk import prepare
from ui.work.results import Computation

VIEWS = {"grid": views.draw_grid, "heads": views.draw_heads, "matrix": views.draw_matrix}


def draw_kinds(trace: Trace) -> None:
    """Draw the control for the attention kind."""
    kinds = kinds_of(trace)
    long = "-attention" if len(kinds) > 1 else ""  # for three in one row of a phone
    names = {kind: kind_text_of(trace, kind).name.removesuffix(long) for kind in kinds}
    choose_one("Kind of attention", KIND, names)


def first(side: Side) -> list[Computation[Any] | Request]:
    """Return the maps, and the changes by edits."""
    AttentionSettings.enter(side.trace)
    ensure_kind(side.trace)
    unset = not url_state.stored(AttentionSettings.heads)
    if unset and (end := finished(side)) and (heads := read_choice(end.trace).heads):
        url_state.put(AttentionSettings.heads, heads)
    return [*first_of_maps(side.trace, read_choice(side.trace)), *first_of_changes(side.view)]


def draw(side: Side) -> None:
    """Draw the chosen view, and below it what changes it."""
    view, trace = side.view, side.trace
    ensure_kind(trace)
    choice = read_choice(trace)
    prepare(view, first_of_maps(trace, choice))
    chosen_maps = get_maps(view, trace, choice)
    with st.container(key="after_hint"):
        if message := said_next(view.sentence):
            st.markdown(message)
        else:
            draw_hint(view, trace, choice.display)
    # With several kinds, the grid has tabs and switches between them in the browser.
    tabs = choice.display == "grid" and len(kinds_of(trace)) > 1
    if not tabs:
        draw_kinds(trace)
    VIEWS[choice.display](view, choice, chosen_maps)
    if view.kind == "checkpoint":
        draw_texts(view, trace)
    with st.container(horizontal=True, vertical_alignment="center"):
        units_control()
        views.draw_dim()
        if choice.display != "heads":
            with st.popover("Combine", icon=":material/stacks:", type="tertiary"):
                views.draw_aggregate(choice, chosen_maps)
        st.button(
            "Find heads", key="finder", icon=":material/search:", type="tertiary",
            on_click=toggle_find,
        )  # fmt: skip
        views.offer(view, choice, chosen_maps)
    if url_state.stored(AttentionSettings.find):
        with st.container(border=True, gap="small", key="answer"):
            draw_find(view, trace, choice)
    draw_effect(view, trace)
    st.caption(f"{'' if tabs else views.about(chosen_maps) + ' '}{views.NOT_AN_EXPLANATION}")


PAGE = Page(
    "attention", "Attention", ":material/grid_view:", draw, first=first,
    entries=(
        Entry("Attention", 1, "All heads", {"display": "grid"}),
        Entry("Attention", 2, "Word links", {"display": "heads", "units": "words"}),
        Entry("Attention", 3, "Matrix", {"display": "matrix"}),
    ),
    choice=(AttentionSettings,),
    notes=lambda: (f"**Whole words.** {WORD_RULE}",),
    beside=(MAPS,),
)  # fmt: skip
