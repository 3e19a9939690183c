"""Pictures of stops: scenes full screen and as files with notes, and those of the training tour."""

from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import urlencode

import streamlit as st

from figures.exhibit import Exhibit, Panel, Series, file_stem
from figures.labels import count, plain
from figures.paper import HALL, PRESETS, Preset, to_pages, to_png
from transformer.types import Report
from ui.core import url_state
from ui.core.glossary import term
from ui.core.layout import current_theme
from ui.core.view import CHECKPOINT, SENTENCE, View
from ui.export.download import download_button
from ui.frame.page import page_at
from ui.tours import guide
from ui.tours.guide import GUESS, LECTURE, SCENE, TourStop
from ui.tours.scene_facts import sentences
from ui.tours.stops import Question, Tour, UnfitError, unmarked
from ui.tours.training_exhibits import FIGURES, length_of, training_exhibit
from ui.tours.training_facts import Part, TrainingFacts, how_long, training_facts, whose
from ui.work.desk import run
from ui.work.results import DEFAULT_CHECKPOINT
from ui.work.visit import run_in_turn

_AHEAD = "headlight_lecture_ahead"  # session key: True until the next picture is drawn
DRAWING = "Drawing: {step} of {most}"


class Files(NamedTuple):
    """A lecture's pictures by scene, as PNG, and all scenes with notes as PDF."""

    pictures: dict[int, bytes]
    pdf: bytes


def asked_in(here: TourStop, view: View) -> Question:
    """Return a scene's question about a view.

    Raises: `UnfitError` if the model lacks what the scene shows.
    """
    stop = here.stop
    if stop.facts is None:
        return stop.asked(None)
    if view.kind != "checkpoint" or not view.checkpoint:
        raise UnfitError("This scene needs one of this project's encoder-decoder models.")
    return stop.question(guide.scene_of(view))


def draw_scene(here: TourStop, view: View) -> None:
    """Draw a scene: one sentence, its picture, and its question or answer."""
    url_state.show(LECTURE, SCENE, CHECKPOINT, SENTENCE, only=True)
    stop, fresh = here.stop, guide.BEATS not in st.session_state
    with st.container(key="scene_head", horizontal=True, vertical_alignment="center"):
        st.markdown(stop.title)
        st.markdown(f":gray[{here.number} / {len(here.tour.stops)}]", width="content")
    picture, foot = (st.container(key=f"scene_{part}") for part in ("picture", "foot"))
    foot = foot.empty().container()
    if fresh:  # nothing of the previous scene remains while this one is computed
        picture = picture.empty()
    try:
        asked = asked_in(here, view)
    except UnfitError as error:
        st.session_state[guide.BEATS] = 0
        foot.markdown(f"{plain(str(error))} :gray[Go on to the next scene.]")
        return
    st.session_state[guide.BEATS] = asked.beats
    beat = min(url_state.get(GUESS) or 0, asked.beats)
    if part := asked.picture(beat):
        drawn = picture_at(here, view, part, beat, HALL[current_theme()])
        picture.image(drawn, alt=f"{stop.title} {part.title}")
    elif stop.facts and not asked.pictures:  # a tour's stop, whose page has the answer
        guide.show_subject(here, view, guide.scene_of(view))
        if beat < asked.beats:
            picture.html('<p class="hides">The page appears with the answer.</p>')
    # Letters, so that a class can vote by hand or card.
    answered = beat == asked.beats
    usual, right = ":gray[**{}** {}]" if answered else "**{}** {}", ":material/check: **{} {}**"
    options = [
        (right if answered and at == asked.answer else usual).format(chr(65 + at), plain(option))
        for at, option in enumerate(asked.options)
    ]
    for text in filter(None, (asked.ask, " \u2003 ".join(options), asked.because * answered)):
        foot.markdown(text)
    with st.container(key="scene_ahead"):
        _look_ahead(here, view, asked, beat)
    st.session_state[_AHEAD] = True


def picture_at(
    here: TourStop, view: View, part: Panel | Series, beat: int, preset: Preset
) -> bytes:
    """Return a stop's picture at a beat as PNG, drawn once for all visitors."""
    return run(
        ("scene", here.stop.facts, view.request, beat, preset),
        lambda report: to_png(Exhibit("scene", "", "", (part,)), preset, lambda line: None),
    )


@st.fragment(run_every=0.5)
def _look_ahead(here: TourStop, view: View, asked: Question, beat: int) -> None:
    """Draw the next picture ahead of the clicker, after the run that drew this one."""
    if not st.session_state.pop(_AHEAD, False):
        return
    beat, following = beat + 1, guide.beside(here, 1)
    with run_in_turn(), suppress(UnfitError):
        if beat > asked.beats and following:
            here, asked, beat = following, asked_in(following, view), 0
        if part := asked.picture(beat):
            picture_at(here, view, part, beat, HALL[current_theme()])


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
            asked = Question("", (), 0, str(error))
        name, right = file_stem(tour.title, number), asked.options[asked.answer : asked.answer + 1]
        answer = unmarked(" ".join([*(f"{option}." for option in right), asked.because]))
        lines = {"Question": unmarked(asked.ask), "Answer": answer, "Notes": unmarked(stop.text)}
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


def draw_training(view: View, here: TourStop) -> None:
    """Draw the picture of a stop, with its downloads; of the first, the numbers."""
    scene = guide.scene_of(view)
    facts = training_facts(scene)
    if here.number == 1:
        _draw_numbers(facts)
        return
    figure, length = [*FIGURES][here.number - 2], length_of(scene)
    exhibit = training_exhibit(facts, view.checkpoint, view.title, figure, length)
    numbers = zip(*exhibit.arrays.values(), strict=True)
    alt = "; ".join(f"{name}: {value:.4g}" for name, value in numbers)
    preset = replace(HALL[current_theme()], height=0, text=16, small=15)
    picture = picture_at(here, view, exhibit.parts[0], 1, preset)
    st.image(picture, alt=f"{exhibit.title}. {alt}")
    st.caption(plain(exhibit.caption))
    with st.container(horizontal=True, horizontal_alignment="right"):
        download_button(lambda: exhibit, key="training", name=exhibit.name)


def _draw_numbers(facts: TrainingFacts) -> None:
    """Draw the length of the training, and of each of its parts."""
    st.markdown(f"##### {whose(facts)} in numbers")
    epochs = count(facts.epochs, "epoch") if facts.epochs else ""
    loss = "" if facts.val_nll is None else f"loss on held-out text {facts.val_nll:.2f} nats"
    terms = "\n\n".join(f"**{name}** {term(name)}" for name in ("update", "epoch", "token", "loss"))
    st.markdown(_length(facts, epochs, loss), help=terms)
    st.caption(
        "From the model's metrics.json."
        + (" The numbers are of the last part of its training." if facts.continued else "")
        if facts.own
        else "This model does not say how it was trained; these are the paper's numbers."
    )
    if facts.continued and len(facts.parts) > 1:
        st.markdown("##### Its training, part by part")
        parts = (_length(part, plain(", ".join(part.corpora))) for part in facts.parts)
        st.markdown("\n".join(f"1. {part}" for part in parts))


def _length(training: Part | TrainingFacts, *more: str) -> str:
    """Return the length of a training in a line of Markdown; `more` is further text."""
    texts = [
        f"{training.updates:,} updates" if training.updates else "",
        f"{training.target_tokens:,} target tokens" if training.target_tokens else "",
        how_long(training.hours) if training.hours else "",
        *more,
    ]
    return " · ".join(filter(None, texts)) or "no record"
