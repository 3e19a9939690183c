"""Attention: all heads, lines between tokens, or one matrix, by tokens or whole words."""

from dataclasses import replace
from typing import Any

import streamlit as st

from transformer.measures.words import WORD_RULE
from transformer.trace.records import Trace
from ui.attention import choice as choices
from ui.attention import views
from ui.attention.against import draw_keys
from ui.attention.choice import AttentionSettings
from ui.attention.editing import draw_effect, draw_find, draw_hint, draw_texts
from ui.attention.maps import AttentionChoice, kinds_of, special_keys
from ui.compare.attention import MAPS
from ui.core import url_state
from ui.core.view import Request, Side, View, said_next
from ui.core.widgets import CellChoice, cells_control, units_control
from ui.frame.cells import about_cells, measured_view
from ui.frame.editing import first_of_changes
from ui.frame.page import Entry, Page
from ui.frame.through_time import finished
from ui.head.views import default_query
from ui.work.desk import get_trace, prepare
from ui.work.results import Computation

NOT_AN_EXPLANATION = (
    "Attention shows where a head reads, not what the model does with it; by itself it is not an "
    "explanation."
)

VIEWS = {
    "grid": views.draw_grid, "heads": views.draw_heads, "matrix": views.draw_matrix,
    "against": views.draw_against,
}  # fmt: skip


def first(side: Side) -> list[Computation[Any] | Request]:
    """Return the maps, and the changes by edits."""
    AttentionSettings.enter(side.trace)
    choices.ensure_kind(side.trace)
    unset = not url_state.stored(AttentionSettings.heads)
    if unset and (end := finished(side)) and (heads := choices.read_choice(end.trace).heads):
        url_state.put(AttentionSettings.heads, heads)
    choice = choices.read_choice(side.trace)
    view = measured_view(side.view, choices.places_of(choice))
    maps = [view.request] if view.cells else choices.first_of_maps(side.trace, choice)
    return [*maps, *first_of_changes(side.view)]


def on_a_pair(view: View, trace: Trace, choice: AttentionChoice) -> AttentionChoice:
    """Return the choice; a matrix opens on the example's word and what it is read for most."""
    params = AttentionSettings.queries, AttentionSettings.keys
    if choice.display != "matrix" or any(map(url_state.stored, params)):
        return choice
    query = default_query(view, trace, choice.kind)
    weights = trace.attention(choice.kind).mean(axis=(0, 1))[query].copy()
    weights[[*special_keys(trace, choice.kind), *([] if choice.kind == "cross" else [query])]] = 0
    return replace(choice, queries=(query,), keys=(int(weights.argmax()),))


def draw(side: Side) -> None:
    """Draw the chosen view, and below it what changes it."""
    view, trace = side.view, side.trace
    choices.ensure_kind(trace)
    choice = on_a_pair(view, trace, choices.read_choice(trace))
    shown = measured_view(view, choices.places_of(choice))
    several = measured_view(view)  # an effect is of one map
    name = "against" if url_state.get(AttentionSettings.display) == "against" else choice.display
    prepare(several if choice.display != "matrix" else shown, choices.first_of_maps(trace, choice))
    chosen_maps = choices.get_maps(shown, get_trace(shown), choice)
    with st.container(key="after_hint"):
        if message := said_next(view.sentence):
            st.markdown(message)
        else:
            draw_hint(view, trace, name)
    # With several kinds, the grid has tabs and switches between them in the browser.
    tabs = choice.display == "grid" and len(kinds_of(trace)) > 1
    if not tabs and choice.display == "grid":
        views.draw_kinds(trace)
    VIEWS[name](shown, choice, chosen_maps)
    if view.kind == "checkpoint":
        draw_texts(view, trace)
    with st.container(horizontal=True, vertical_alignment="center"):
        units_control()
        if choice.display == "heads":
            cells_control()
        views.draw_dim()
        if choice.display != "heads":
            with st.popover("Combine", icon=":material/stacks:", type="tertiary"):
                views.draw_aggregate(choice, chosen_maps)
        st.button(
            "Find heads", key="finder", icon=":material/search:", type="tertiary",
            on_click=choices.toggle_find,
        )  # fmt: skip
        offered = shown if choice.display == "matrix" else several
        views.offer(offered, choice, choices.get_maps(offered, get_trace(offered), choice))
    if url_state.stored(AttentionSettings.find):
        with st.container(border=True, gap="small", key="result_answer"):
            draw_find(view, trace, choice)
    draw_effect(view, trace)
    lines = about_cells(view, ()) if choice.display == "heads" else ""
    if choice.display == "heads":
        draw_keys(view, choice)
    about = "" if tabs else f"{views.about(chosen_maps)} "
    st.caption(f"{about}{lines or NOT_AN_EXPLANATION}")


PAGE = Page(
    "attention", "Attention", ":material/grid_view:", draw, first=first,
    entries=(
        Entry("Attention", 1, "All heads", {"display": "grid"}),
        Entry("Attention", 2, "Word links", {"display": "heads", "units": "words"}),
        Entry("Attention", 3, "Matrix", {"display": "matrix"}),
        Entry("Attention", 4, "Two measures", {"display": "against"}, "against"),
    ),
    choice=(AttentionSettings, CellChoice),
    notes=lambda: (f"**Whole words.** {WORD_RULE}",),
    beside=(MAPS,),
)  # fmt: skip
