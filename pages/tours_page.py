"""Tours: short lessons on the paper, with questions to answer before seeing the picture."""

from __future__ import annotations

import streamlit as st

from ui.core.view import View
from ui.frame.page import Entry, Page
from ui.tours import guide
from ui.tours.stops import Tour
from ui.tours.training_views import draw_training


def draw_tours() -> None:
    """Draw all tours in the order of the paper."""
    st.markdown(
        "Short lessons on the paper, in the pages of this app. Each stop sets the controls and asks"
        " you for a prediction; **the answer comes from the model on the left**, not from a book. "
        "Every stop has a link to hand out."
    )
    here = guide.current_stop()
    for start in range(0, len(guide.TOURS), 2):
        pair = guide.TOURS[start : start + 2]
        for column, tour in zip(st.columns(2, gap="large"), pair, strict=False):
            with column.container(border=True, height="stretch"):
                draw_tour(tour, now=here is not None and here.tour is tour)


def draw_tour(tour: Tour, now: bool) -> None:
    """Draw a tour: its subject, stops, and Start button."""
    words, button = st.columns([3, 1], vertical_alignment="center")
    words.markdown(f"{tour.icon} **{tour.title}** :gray[· section {tour.section}]  \n{tour.about}")
    button.button(
        "Again" if now else "Start", key=f"start_{tour.name}", width="stretch",
        on_click=guide.go_to, args=(tour.name, 1),
    )  # fmt: skip
    with st.container(key=f"tour_stops_{tour.name}"):  # in one line, or on a large screen a list
        st.caption("\n".join(f"1. {stop.title}" for stop in tour.stops))


def whole(view: View) -> None:
    """Draw the tours, or the current stop of the tour on training."""
    now = guide.current_stop()
    if now is not None and now.tour.name == "training" and view.checkpoint:
        draw_training(view, guide.scene_of(view), now.number)
    else:
        draw_tours()


PAGE = Page(
    "tours", "Tours", ":material/tour:", whole=whole,
    entries=(Entry("Lessons", 1),),
    needs=("any_sentence", "search", "internals"),
    model="absent",
)  # fmt: skip
