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
    names = {kind: kind_text_of(trace, kind).name for kind in kinds_of(trace)}
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
    """Draw the controls and the chosen view."""
    view, trace = side.view, side.trace
    ensure_kind(trace)
    hint = st.empty()
    if view.kind == "checkpoint":
        draw_texts(view, trace)
    left, right = st.columns([4, 7], vertical_alignment="center")
    find = left.container(horizontal=True, vertical_alignment="center", gap="small")
    asides = right.container(
        horizontal=True, horizontal_alignment="right", vertical_alignment="center"
    )
    with asides:
        units_control()
        views.draw_dim()
    choice = read_choice(trace)
    prepare(view, first_of_maps(trace, choice))
    chosen_maps = get_maps(view, trace, choice)
    if message := said_next(view.sentence):
        hint.markdown(message)
    else:
        with hint.container():
            draw_hint(view, trace, choice.display)
    if choice.display != "heads":
        with asides, st.popover("Combine", icon=":material/stacks:", type="tertiary"):
            views.draw_aggregate(choice, chosen_maps)
    find.button(
        "Find heads", key="finder", icon=":material/search:", type="tertiary",
        on_click=toggle_find,
    )  # fmt: skip
    # A cell's heads stand below the map, which a click must not move from under the pointer.
    find_place, of_cell = st.container(), url_state.get(AttentionSettings.find) == "pair"
    with asides:
        views.offer(view, choice, chosen_maps)
    # With several kinds, the grid has tabs and switches between them in the browser.
    if choice.display != "grid" or len(kinds_of(trace)) == 1:
        draw_kinds(trace)
        st.caption(views.about(chosen_maps))
    VIEWS[choice.display](view, choice, chosen_maps)
    draw_effect(view, trace)
    if url_state.stored(AttentionSettings.find):
        below = st.container() if of_cell else find_place
        with below.container(border=True, gap="small"):
            draw_find(view, trace, choice)


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
