"""Lectures: a scene full screen, and a lecture's pictures and notes as files."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlencode

import streamlit as st

from figures.exhibit import Exhibit, Panel, Series, file_stem
from figures.labels import plain
from figures.paper import HALL, PRESETS, to_pages, to_png
from transformer.types import Report
from ui.core import url_state
from ui.core.layout import current_theme
from ui.core.view import CHECKPOINT, SENTENCE, View
from ui.frame.page import page_at
from ui.tours import guide
from ui.tours.guide import GUESS, LECTURE, SCENE, TourStop
from ui.tours.scene_facts import sentences
from ui.tours.stops import Question, Tour, UnfitError, unmarked
from ui.work.desk import run
from ui.work.models import DEFAULT_CHECKPOINT
from ui.work.visit import run_in_turn

_AHEAD = "headlight_lecture_ahead"  # session key: True until the next picture is drawn
DRAWING = "Drawing: {step} of {most}"


class Asked(NamedTuple):
    """A scene's question and pictures."""

    question: Question
    pictures: tuple[Panel | Series, ...] = ()

    @property
    def beats(self) -> int:
        """Presses until the answer is there."""
        asks = bool(self.question.ask or self.question.because)
        return max(len(self.pictures) - 1, int(asks))


@dataclass(frozen=True)
class Files:
    """A lecture's pictures by scene, as PNG, and all scenes with notes as PDF."""

    pictures: dict[int, bytes]
    pdf: bytes


def asked_in(here: TourStop, view: View) -> Asked:
    """Return a scene's question and pictures for a view.

    Raises: `UnfitError` if the model lacks what the scene shows.
    """
    stop = here.stop
    if stop.facts is None:
        return Asked(stop.asked(None))
    if view.kind != "checkpoint" or not view.checkpoint:
        raise UnfitError("This scene needs one of this project's encoder-decoder models.")
    facts = stop.facts(guide.scene_of(view))
    return Asked(stop.asked(facts), facts.pictures)


def draw_scene(here: TourStop, view: View) -> None:
    """Draw a scene: one sentence, its picture, and its question or answer."""
    url_state.show_only(LECTURE, SCENE, CHECKPOINT, SENTENCE)
    stop, fresh = here.stop, guide.BEATS not in st.session_state
    with st.container(key="scene_head", horizontal=True, vertical_alignment="center"):
        st.markdown(stop.title)
        st.markdown(f":gray[{here.number} / {len(here.tour.stops)}]", width="content")
    picture, foot = (st.container(key=f"scene_{part}") for part in ("picture", "foot"))
    if fresh:  # nothing of the scene before stays while this one is computed
        picture, foot = picture.empty(), foot.empty().container()
    try:
        asked = asked_in(here, view)
    except UnfitError as error:
        st.session_state[guide.BEATS] = 0
        foot.markdown(f"{plain(str(error))} :gray[Go on to the next scene.]")
        return
    st.session_state[guide.BEATS] = asked.beats
    beat, question = min(url_state.get(GUESS) or 0, asked.beats), asked.question
    if asked.pictures:
        alt = f"{stop.title} {asked.pictures[min(beat, len(asked.pictures) - 1)].title}"
        picture.image(picture_at(here, view, asked, beat), alt=alt)
    elif stop.facts:  # a tour's stop, whose page has the answer
        guide.show_subject(here, view, guide.scene_of(view))
        if beat < asked.beats:
            picture.html('<i class="hides"></i>')
    answer = " \u2003 ".join(map(plain, question.options))
    if beat == asked.beats:
        right = question.options[question.answer : question.answer + 1]
        answer = " ".join([*(f"**{plain(option)}.**" for option in right), question.because])
    for text in filter(None, (question.ask, answer)):
        foot.markdown(text)
    with st.container(key="scene_ahead"):
        _look_ahead(here, view, asked, beat)
    st.session_state[_AHEAD] = True


def picture_at(here: TourStop, view: View, asked: Asked, beat: int) -> bytes:
    """Return a scene's picture at a beat as PNG, drawn once for all visitors."""
    number, theme = min(beat, len(asked.pictures) - 1), current_theme()
    shown = Exhibit("scene", "", "", (asked.pictures[number],))
    return run(
        ("scene", here.stop.facts, view.request, number, theme),
        lambda report: to_png(shown, HALL[theme], lambda line: None),
    )


@st.fragment(run_every=0.5)
def _look_ahead(here: TourStop, view: View, asked: Asked, beat: int) -> None:
    """Draw the next picture ahead of the clicker, after the run that drew this one."""
    if not st.session_state.pop(_AHEAD, False):
        return
    beat, following = beat + 1, guide.beside(here, 1)
    with run_in_turn(), suppress(UnfitError):
        if beat > asked.beats and following:
            here, asked, beat = following, asked_in(following, view), 0
        if asked.pictures:
            picture_at(here, view, asked, beat)


def draw_list(view: View, tour: Tour) -> None:
    """Draw a lecture's scenes with links, and its files once they are asked for."""
    name = tour.title if tour.name in guide.LECTURES else unmarked(tour.title)
    wants = st.session_state.get("headlight_lecture_files") == (tour.name, view.request)
    with st.container(border=True, key=f"lecture_{file_stem(tour.title)}"):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"{tour.icon} **{plain(name)}**  \n{tour.about}")
            st.button(
                "Start", key=f"lecture_start_{tour.name}", type="primary",
                on_click=guide.go_to, args=(tour, 1),
            )  # fmt: skip
            st.button(
                "Prepare PNG and PDF", key=f"lecture_files_{tour.name}", icon=":material/draft:",
                on_click=st.session_state.__setitem__, disabled=wants,
                args=("headlight_lecture_files", (tour.name, view.request)),
                help="A slide of 1920 x 1080 pixels for every scene, and one PDF with all of them, "
                "questions, answers and notes. It takes up to half a minute.",
            )  # fmt: skip
        files = files_of(view, tour) if wants else None
        for number, stop in enumerate(tour.stops, 1):
            with st.container(horizontal=True, vertical_alignment="center"):
                st.markdown(f"{number}. [{stop.title}](?{link_to_scene(view, tour, number)})")
                if files and number in files.pictures:
                    st.download_button(
                        "PNG", files.pictures[number], f"{file_stem(name, number)}.png",
                        "image/png", key=f"png_{tour.name}_{number}", type="tertiary",
                        icon=":material/image:", on_click="ignore",
                    )  # fmt: skip
        if files:
            st.download_button(
                "All scenes with notes, PDF", files.pdf, f"{file_stem(name)}.pdf",
                "application/pdf", key=f"pdf_{tour.name}", icon=":material/picture_as_pdf:",
                on_click="ignore",
            )  # fmt: skip


def link_to_scene(view: View, tour: Tour, number: int) -> str:
    """Return the query of a short link to a scene, which does not answer its question."""
    settings = {LECTURE.name: tour.name, SCENE.name: str(number)}
    if view.checkpoint != DEFAULT_CHECKPOINT:
        settings[CHECKPOINT.name] = view.checkpoint
    if view.sentence != view.examples.items[0].sentence:
        settings[SENTENCE.name] = view.sentence
    return urlencode(settings)


def files_of(view: View, tour: Tour) -> Files:
    """Return a lecture's files, made with a progress bar."""
    pages: dict[int, Exhibit] = {}
    slides: dict[int, Exhibit] = {}
    for number, stop in enumerate(tour.stops, 1):
        try:
            asked = asked_in(TourStop(tour, number), view)
        except UnfitError as error:
            asked = Asked(Question("", (), 0, str(error)))
        question, name = asked.question, file_stem(tour.title, number)
        right = question.options[question.answer : question.answer + 1]
        answer = unmarked(" ".join([*(f"{option}." for option in right), question.because]))
        lines = {"Question": unmarked(question.ask), "Answer": answer, "Notes": unmarked(stop.text)}
        facts, title = {key: text for key, text in lines.items() if text}, unmarked(stop.title)
        if asked.pictures:
            picture = asked.pictures[-1]
            slides[number] = Exhibit(name, title, answer, (picture,))
        else:
            picture = sentences(("live, on the page", [f"▁{page_at(stop.page).title}"], ()))
        pages[number] = Exhibit(name, title, "", (picture,), facts=facts)

    def make(report: Report) -> Files:
        most, drawn = len(slides) + len(pages), dict[int, bytes]()
        for number, slide in slides.items():
            report(len(drawn), most)
            drawn[number] = to_png(slide, HALL["light"], lambda line: None)
        pdf = to_pages(
            [*pages.values()], PRESETS["slide"], lambda at, _: report(len(drawn) + at, most)
        )
        return Files(drawn, pdf)

    return run(("lecture", repr(tour), view.request), make, DRAWING)
