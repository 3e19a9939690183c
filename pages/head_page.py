"""Inside a head: one query through every stage of attention, with its numbers."""

from functools import partial
from typing import Any

import streamlit as st

from figures.labels import code, plain_token, query_labels
from transformer.trace.records import Trace
from ui.attention.choice import AttentionSettings
from ui.core.glossary import term, word_start
from ui.core.url_state import HEAD, KIND, LAYER
from ui.core.view import Side
from ui.core.widgets import numbered
from ui.export.download import download_button, figure_for
from ui.frame.editing import offer_switch
from ui.frame.page import Entry, Page, link_to
from ui.frame.through_time import finished
from ui.head import views
from ui.head.exhibits import HeadChoice, arguments, head_name, inside_head, names_of, stages_of
from ui.work.results import Computation


def draw_controls(trace: Trace, place: HeadChoice) -> None:
    """Draw the boxes for layer, head and query."""
    n_layers, n_heads, *_ = trace.attention(place.kind).shape
    queries = query_labels(trace, place.kind)
    for param, width, names in (
        (LAYER, 110, [f"Layer {i + 1}" for i in range(n_layers)]),
        (HEAD, 110, [f"Head {i + 1}" for i in range(n_heads)]),
        (views.HeadSettings.query, 220,
         [f"{i + 1}  {plain_token(query)}" for i, query in enumerate(queries)]),
    ):  # fmt: skip
        numbered(
            "head", param, param.name.capitalize(), names, getattr(place, param.name),
            partial(views.keep, place), help=term(param.name), label_visibility="collapsed",
            width=width,
        )  # fmt: skip


def first(side: Side) -> list[Computation[Any]]:
    """Return the computation of the stages."""
    if None in side.cell_now() and (end := finished(side)):
        views.keep(views.place_now(end))
    return [Computation.of(stages_of, views.place_now(side))]


def draw(side: Side) -> None:
    """Draw the controls and stages."""
    view, trace = side.view, side.trace
    place = views.place_now(side)
    query, keys = names_of(place, trace)
    chosen = views.chosen_now(trace, place)
    with st.container(key="after_hint"):
        st.markdown(
            f"The query {code(plain_token(query))} looks at the {keys}: **follow it to what the "
            f"head adds**{views.why_link(view)}. Choose a key to follow."
        )
    with st.container(key="after_choice", horizontal=True, vertical_alignment="center"):
        views.draw_kinds(st.container(width="content"), trace)
        draw_controls(trace, place)
    views.draw_stages(side, place, chosen, views.keep_chosen)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        link_to(
            "attention", "Among all heads",
            values={
                KIND: place.kind, LAYER: place.layer + 1, HEAD: place.head + 1,
                AttentionSettings.map: "cell",
            },
            help="This head's map on the Attention page.",
        )  # fmt: skip
        offer_switch(view, trace, place.kind, place.layer, place.head)
        download_button(
            lambda: figure_for(view, inside_head, **arguments(place, chosen)), key="head",
            name=head_name(place.kind, place.layer, place.head, place.query),
        )  # fmt: skip
    views.draw_why(side, place, chosen.key)
    st.caption(word_start(trace.src_tokens or trace.tgt_tokens))


PAGE = Page(
    "head", "Inside a head", ":material/center_focus_strong:", draw, first=first,
    entries=(Entry("Attention", 5),),
    needs=("heads",),
    choice=(views.HeadSettings,),
    beside=(views.BESIDE,),
)  # fmt: skip
