"""Inside a head: one query through every stage of attention, with its numbers."""

from __future__ import annotations

from functools import partial
from typing import Any

import streamlit as st

from figures.labels import code, name_of_kind, plain_token, query_labels
from transformer.trace.records import Trace
from ui.attention.choice import AttentionSettings
from ui.core.glossary import term, word_start
from ui.core.side import Side
from ui.core.url_state import HEAD, KIND, LAYER
from ui.core.widgets import numbered
from ui.export.download import download_button, figure_for
from ui.frame.editing import offer_switch
from ui.frame.page import Entry, Page, link_to
from ui.frame.through_time import finished
from ui.head.choice import HeadSettings, chosen_now, keep, keep_chosen, place_now
from ui.head.exhibits import HeadChoice, arguments, head_name, inside_head, names_of
from ui.head.views import BESIDE, draw_kinds, draw_stages, stages_at
from ui.work.results import Computation


def draw_controls(shown: Trace, place: HeadChoice) -> None:
    """Draw the boxes for layer, head and query."""
    n_layers, n_heads, *_ = shown.attention(place.kind).shape
    queries = query_labels(shown, place.kind)
    boxes = st.columns([1, 1, 3, 1], vertical_alignment="bottom")
    for box, param, label, names in (
        (boxes[0], LAYER, "Layer", [str(i + 1) for i in range(n_layers)]),
        (boxes[1], HEAD, "Head", [str(i + 1) for i in range(n_heads)]),
        (boxes[2], HeadSettings.query, "Query",
         [f"{i + 1}  {plain_token(query)}" for i, query in enumerate(queries)]),
    ):  # fmt: skip
        name = label.lower()
        with box:
            numbered("head", param, label, names, getattr(place, name), partial(keep, place),
                     help=term(name))  # fmt: skip


def first(side: Side) -> list[Computation[Any]]:
    """Return the computation of the stages."""
    if None in side.cell_now() and (end := finished(side)):
        keep(place_now(end))
    return [stages_at(place_now(side))]


def draw(side: Side) -> None:
    """Draw the controls and stages."""
    st.markdown(
        "One token looks at the others: **follow it from its vector to what the head adds.** "
        "Choose a key to follow it instead."
    )
    view, shown = side.view, side.trace
    kinds, more = st.columns([3, 2], vertical_alignment="center")
    draw_kinds(kinds, shown)
    place = place_now(side)
    draw_controls(shown, place)
    query, keys = names_of(place, shown)
    chosen = chosen_now(shown, place)
    with more.container(horizontal=True, horizontal_alignment="right"):
        download_button(
            lambda: figure_for(view, inside_head, **arguments(place, chosen)), key="head",
            name=head_name(place.kind, place.layer, place.head, place.query),
        )  # fmt: skip
    named = name_of_kind(shown, place.kind)
    heading = f"**{named}, layer {place.layer + 1}, head {place.head + 1}.** "
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(
            f"{heading}The query {code(plain_token(query))} looks at the {keys}. "
            f":small[{word_start(shown.src_tokens or shown.tgt_tokens)}]",
            width="content",
        )
        link_to(
            "attention", "Among all heads",
            values={
                KIND: place.kind, LAYER: place.layer + 1, HEAD: place.head + 1,
                AttentionSettings.map: "cell",
            },
            help="This head's map on the Attention page.",
        )  # fmt: skip
        offer_switch(view, shown, place.kind, place.layer, place.head)
    draw_stages(side, place, chosen, keep_chosen)


PAGE = Page(
    "head", "Inside a head", ":material/center_focus_strong:", draw, first=first,
    entries=(Entry("Attention", 4),),
    needs=("heads",),
    choice=(HeadSettings,),
    beside=(BESIDE,),
)  # fmt: skip
