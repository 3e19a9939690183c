"""Tours and lectures: lessons on the paper, with questions to answer before seeing the picture."""

import streamlit as st

from transformer.types import InputError
from ui.core import url_state
from ui.core.url_state import Param
from ui.core.view import View
from ui.frame.page import Entry, Page
from ui.tours import guide, lecture, own
from ui.tours.stops import Tour

LESSONS: Param[str] = Param("lessons", url_state.one_of(("tours", "lecture")), "tours")

_EXAMPLE = """# My lecture
/?lecture=attention&scene=1
/attention?kind=cross&layer=4  Layer 4 looks at the source.
? Which head looks at the verb?
! Head 2: its row has the strongest cell there.
"""


def draw_tours() -> None:
    """Draw all tours in the order of the paper."""
    st.markdown(
        "Short lessons on the paper, on the pages of this app. Each stop sets the controls and asks"
        " you for a prediction; **the answer comes from the chosen model**, not from a book. "
        "Every stop has a link to share."
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
        on_click=guide.go_to, args=(tour, 1),
    )  # fmt: skip
    with st.container(key=f"tour_stops_{tour.name}"):  # in one line, or on a large screen a list
        st.caption("\n".join(f"1. {stop.title}" for stop in tour.stops))


def draw_lectures(view: View) -> None:
    """Draw all lectures, and the form for a custom lecture."""
    st.markdown(
        "A lecture fills the window: **one sentence, one picture, one question, then the answer**, "
        "from the chosen model. Arrows, space or a remote move on, B blanks the screen, Esc "
        "leaves. Choose the model and sentence first; only scene 7 has its own sentence."
    )
    for tour in guide.LECTURES.values():
        lecture.draw_list(view, tour)
    with st.expander("A lecture of your own", icon=":material/edit_note:"):
        _draw_own(view)


def _draw_own(view: View) -> None:
    st.markdown(
        "A scene is one line: a link of this app, a space, and the sentence above its picture. A "
        "line with **?** asks, a line with **!** answers, **#** is the title. Links to tours and "
        "to scenes above come with their own questions."
    )
    kept = st.session_state.get(own.TEXT, _EXAMPLE)
    text = st.text_area("Scenes", kept, height=180, max_chars=own.MOST_CHARACTERS, key="own_box")
    st.session_state[own.TEXT] = text
    st.download_button(
        "Save as a file", text, "lecture.txt", "text/plain", icon=":material/save:",
        type="tertiary", on_click="ignore", key="own_file",
    )  # fmt: skip
    tour = None
    try:
        tour = own.read_text(text, guide.stop_in)
        tour = own.read_link(own.link_of(text, guide.stop_in), guide.stop_in)
    except InputError as error:
        st.warning(str(error)[:1].upper() + str(error)[1:] + ".", icon=":material/edit_note:")
        if tour is None:
            return
    lecture.draw_list(view, tour)


def whole(view: View) -> None:
    """Draw the lessons, or the current stop of the tour on training."""
    now = guide.current_stop()
    if now is not None and now.tour.lecture:
        return
    if now is not None and now.tour.name == "training" and view.checkpoint:
        lecture.draw_training(view, now)
    elif url_state.get(LESSONS) == "lecture":
        draw_lectures(view)
    else:
        draw_tours()


PAGE = Page(
    "tours", "Tours", ":material/tour:", whole=whole,
    entries=(
        Entry("Lessons", 0, "Tours", {"lessons": "tours"}),
        Entry("Lessons", 1, "Lecture", {"lessons": "lecture"}),
    ),
    needs=("any_sentence", "search", "internals"),
    model="absent",
    choice=(LESSONS,),
)  # fmt: skip
