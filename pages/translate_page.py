"""Translate: step through decoding and watch where the model looks."""

from dataclasses import replace
from typing import Any

import streamlit as st

from figures.labels import shorten
from ui.attention.against import draw_keys
from ui.attention.maps import AttentionChoice
from ui.core import url_state
from ui.core.doubts import doubts, headline, parts_of
from ui.core.view import Request, Side, View, ask_for
from ui.core.widgets import UNITS, CellChoice, bound, draw_changed, draw_text, weights_alone
from ui.frame.editing import said_of_changes
from ui.frame.page import Entry, Page, link_to
from ui.frame.steering import draw_steer_form
from ui.tours.opening import draw_opening, offer_opening, opening_plays
from ui.translate import player, views
from ui.translate.exhibits import why_no_player
from ui.translate.views import TranslateChoice
from ui.work.desk import get_trace, get_tracer
from ui.work.results import Computation


def draw(side: Side) -> None:
    """Draw the chosen view."""
    view, trace, chosen = side.view, side.trace, url_state.get(TranslateChoice.view)
    place = player.within(player.place_now(side), trace)
    sentence, asides = st.columns([5, 4], vertical_alignment="center")
    edited = bool(view.entry.ref.edits)
    with sentence.container(key="source"):
        if edited:  # in its place, so that nothing moves
            st.markdown(said_of_changes(view, trace, get_trace(view.original)))
        else:
            draw_text(shorten(" ".join(trace.source.split()), 140), view.spoken[0])
    with asides.container(
        key="after_asides", horizontal=True, horizontal_alignment="right", gap="xsmall",
        vertical_alignment="center",
    ):  # fmt: skip
        units = st.container(width="content")
        if view.kind == "checkpoint":
            with st.popover("Steer", type="tertiary", icon=":material/alt_route:"):
                draw_steer_form(view)
        download = st.container(width="content")
    text = headline(trace)
    with st.container(key="headline" if len(text) <= 120 else "headline_long"):
        if edited:
            draw_changed(text, view.spoken[1], headline(get_trace(view.original)))
        else:
            draw_text(text or "(an empty translation)", view.spoken[1])
    if warning := " ".join(doubts(view.entry, trace, sampled=view.sampling is not None)).strip():
        st.caption(f":material/info: {warning}")
    if parts := parts_of(view.sentence, view.entry, trace):
        st.selectbox(
            "A sentence of it", parts, index=None, key="part_box", label_visibility="collapsed",
            placeholder=f"Translate one of its {len(parts)} sentences",
            on_change=lambda: ask_for(st.session_state["part_box"]),
        )  # fmt: skip
    if chosen == "steps":
        with player.draw_steps(side, place, units, download):
            if not weights_alone():
                kind, *at = player.places_of(place)[0]
                unit, cell = url_state.get(UNITS), (at[0], at[1])
                draw_keys(view, AttentionChoice(kind, "matrix", unit, cell=cell))
        lacks = get_tracer(view).lacks("internals")
        st.toggle(
            "Source or prefix: where does each token come from?", disabled=lacks is not None,
            help=lacks, **bound(TranslateChoice.sources),
        )  # fmt: skip
        if url_state.get(TranslateChoice.sources) and not lacks:  # computed on demand
            views.draw_sources(view, trace)
    else:
        (views.draw_layers if chosen == "layers" else views.draw_why)(view, trace)


def first(side: Side) -> list[Computation[Any] | Request]:
    """Return the chosen view's first computations."""
    chosen = url_state.get(TranslateChoice.view)
    if chosen != "steps":
        pair = views.pair_now(side.view, side.trace)
        return [views.LAYERS if chosen == "layers" else views.apart(pair)]
    player.ensure_step(side, len(side.trace.predicted_tokens), side.view.example)
    now = player.place_now(side)
    player.remember(replace(player.within(now, side.trace), step=now.step), side)
    shown = player.measured_player(side)
    drawn = player.player_of(side, words=url_state.get(UNITS) == "words")
    return [shown.view.request] if shown.view.cells else [drawn]


def why_no_view(view: View) -> str | None:
    """Return why the model cannot show the chosen view, or None."""
    if view.kind == "archive" and (missing := why_no_player(get_trace(view))):
        return missing
    steps = url_state.get(TranslateChoice.view) == "steps"
    return None if steps else get_tracer(view).lacks("internals")


def whole(view: View) -> None:
    """Draw the opening and the chosen view, or say why there is none."""
    chosen = url_state.get(TranslateChoice.view)
    if (missing := why_no_view(view)) is not None:
        st.info(missing, icon=":material/translate:")
        link_to("attention")
        return
    with st.container(key="opening"):
        waits = chosen == "steps" and opening_plays(view) and draw_opening(view)
    if not waits:
        with st.container(key="translate_page"):
            PAGE.story(view)
            if chosen == "steps":
                offer_opening(view)


PAGE = Page(
    "translate", "Translate", ":material/translate:", draw, first=first, whole=whole,
    entries=(
        Entry("Translate", 1, "Step by step", {"view": "steps"}),
        Entry("Translate", 2, "Layer by layer", {"view": "layers"}, "layers"),
        Entry("Translate", 3, "Why X, not Y", {"view": "why"}, "why"),
    ),
    maps=("decoder_self", "cross"),
    choice=(*player.PLACE, TranslateChoice, CellChoice),
    beside=(player.BESIDE,),
)  # fmt: skip
