"""Tours and lectures: the reader's current stop, and the bar above each page that shows it.

A link holds the tour, the stop and any settings, without the reader's answer; `?tour=heads&stop=3`
or `?lecture=attention&scene=3` is enough. A lecture is a tour whose stops are shown
full screen, see `ui.tours.lecture`.
Entering a stop replaces all settings with its own; those in the link take precedence. From then on
the reader is free to change them.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast
from urllib.parse import urlencode, urljoin

import streamlit as st

from figures.labels import one_stop, plain
from transformer.checkpoint.reference import at
from transformer.config import ModelConfig
from transformer.edits.language import parse_edits
from transformer.trace import position_vectors
from transformer.trace.records import Trace
from transformer.types import InputError
from ui.core import url_state
from ui.core.glossary import linked
from ui.core.presenter import PRESENT
from ui.core.url_state import Param
from ui.core.view import CHECKPOINT, DEVICE, SENTENCE, View
from ui.core.widgets import filled, sets
from ui.frame.page import Page, open_page, page_at
from ui.frame.through_time import moments
from ui.removals.views import NEEDS, effect_of, single_heads, together
from ui.tours import (  # noqa: F401 - facts
    own,
    position_facts,
    scene_facts,
    study_facts,
    trace_facts,
    training_exhibits,
    worth_facts,
)
from ui.tours.opening import find_broken
from ui.tours.stops import TERMS_OF_TOURS, Question, Scene, Stop, Tour, read_tours, sheet
from ui.work.desk import computed, get_trace, prepare
from ui.work.results import entries, resolve
from ui.work.studies import study_of

_BY_NAME, LECTURES = read_tours("tours.toml"), read_tours("lectures.toml", lecture=True)
#: In the paper's order.
TOURS = tuple(_BY_NAME.values())

#: The answer given: 1 for the first option, 0 for "Show me", None for no answer yet. In a lecture,
#: the number of beats so far.
Guess = int | None

TOUR: Param[str] = Param("tour", url_state.one_of(_BY_NAME), "")
STOP: Param[int] = Param("stop", url_state.whole(1, 99), 1)
#: A lecture's name, or a custom lecture as `ui.tours.own.link_of` writes it.
LECTURE: Param[str] = Param("lecture", url_state.text(url_state.MAX_URL_CHARACTERS), "")
SCENE: Param[int] = Param("scene", url_state.whole(1, 99), 1)
GUESS: Param[Guess] = Param("guess", url_state.whole(0, 99), None)

_AT = "headlight_tour_at"
_LOOKED = "headlight_tour_looked"
_GIVEN = "headlight_tour_given"
_RESULTS = "headlight_tour_results"  # by a stop's tour and number, whether it was answered right
_WAS = "headlight_before_lecture"  # address and settings
BEATS = "headlight_lecture_beats"  # presses of the scene on screen until its answer is there
LAST = 99  #: beat of a scene that is entered from the next one, or asked for its answer
_KEEP = frozenset(param.name for param in (CHECKPOINT, DEVICE, PRESENT, TOUR, STOP, LECTURE, SCENE))


@dataclass(frozen=True)
class TourStop:
    """A stop of a tour, `number` counted from 1."""

    tour: Tour
    number: int

    @property
    def stop(self) -> Stop:
        """Return the stop itself."""
        return self.tour.stops[self.number - 1]

    @property
    def place(self) -> dict[Param[Any], Any]:
        """Its settings in a link."""
        name, number = (LECTURE, SCENE) if self.tour.lecture else (TOUR, STOP)
        return {name: self.tour.name, number: self.number}


_STOPS = [TourStop(tour, number) for tour in TOURS for number in range(1, len(tour.stops) + 1)]


def lecture_of(name: str) -> Tour:
    """Return a lecture by its name in a link. Raises: `InputError`, as `own.read_link`."""
    if name == own.SIGN:
        return own.read_text(st.session_state.get(own.TEXT, ""), stop_in)
    return LECTURES.get(name) or own.read_link(name, stop_in)


def stop_in(settings: Mapping[str, str]) -> Stop | None:
    """Return the stop or scene that a link's settings name, or None."""
    for tours, name, number in ((LECTURES, LECTURE, SCENE), (_BY_NAME, TOUR, STOP)):
        if tour := tours.get(settings.get(name.name, "")):
            with suppress(ValueError, IndexError):
                return tour.stops[number.parse(settings.get(number.name, "1")) - 1]
    return None


def current_stop() -> TourStop | None:
    """Return the reader's stop, or None outside tours."""
    if name := url_state.get(LECTURE):
        with suppress(InputError):
            tour = lecture_of(name)
            return TourStop(tour, min(url_state.get(SCENE), len(tour.stops)))
    elif (short := _BY_NAME.get(url_state.get(TOUR))) is not None:
        return TourStop(short, min(url_state.get(STOP), len(short.stops)))
    return None


def evidence() -> str:
    """Return what shows the answer of the reader's stop, once it is answered."""
    here = current_stop()
    return "" if here is None or url_state.get(GUESS) is None else here.stop.shows


def go_to(tour: Tour, number: int, beat: Guess = None) -> None:
    """Go to a stop; the next run enters it. A callback."""
    if tour.lecture and not url_state.get(LECTURE):
        st.session_state[_WAS] = url_state.page(), url_state.everything()
    url_state.forget(TOUR, STOP)
    url_state.store({**TourStop(tour, number).place, GUESS: beat})
    st.session_state.pop(_AT, None)


def leave() -> None:
    """Leave the tour or lecture; a lecture returns to the page before it. A callback."""
    lecture = bool(url_state.get(LECTURE))
    url_state.forget(TOUR, STOP, GUESS, LECTURE, SCENE)
    st.session_state.pop(_AT, None)
    if lecture:
        path, values = st.session_state.pop(_WAS, ("tours", {"lessons": "lecture"}))
        url_state.start_over(values, keep={CHECKPOINT.name, DEVICE.name})
        open_page(path, values)


def fits(view: View) -> bool:
    """Return True if the reader's tour can question this model.

    The tour on roles needs a studied model, other tours an encoder-decoder of this project. In a
    lecture each scene checks the model itself.
    """
    here = current_stop()
    if here is not None and here.tour.lecture:
        return True
    if here is not None and here.stop.facts.__module__ == study_facts.__name__:
        return study_of(view.entry.ref) is not None
    return view.kind == "checkpoint"


def draw_unfit(view: View) -> None:
    """Say which model the reader's tour needs, or why the lecture in the link cannot be read."""
    if name := url_state.get(LECTURE):
        try:
            lecture_of(name)
        except InputError as error:
            st.warning(plain(f"Not a lecture: {error}."), icon=":material/co_present:")
    elif view.kind == "checkpoint":
        st.info(
            "This tour asks about a study of the model's heads, and this model has none yet. "
            "Choose another under Model, such as English → German, everyday."
        )
    else:
        st.info(
            "Tours need one of this project's encoder-decoder models: choose one under Model. "
            "Only *What heads do* works with any studied model."
        )
    st.button("Leave the tour", on_click=leave, key="tour_leave")


def beside(here: TourStop, step: int) -> TourStop | None:
    """Return the previous or next stop; after a tour's last stop, the next tour's first."""
    if here.tour.lecture:
        number = here.number + step
        return TourStop(here.tour, number) if 1 <= number <= len(here.tour.stops) else None
    index = _STOPS.index(here) + step
    there = _STOPS[index] if 0 <= index < len(_STOPS) else None
    return there if there is None or step > 0 or there.tour is here.tour else None


def follow(view: View, step: int = 0) -> Page | None:
    """Enter the stored stop, or the one `step` further; return its page unless already entered."""
    here = current_stop()
    for _ in range(abs(step)):
        here = here and _stepped(here, 1 if step > 0 else -1)
    if here is None or not view.checkpoint:
        st.session_state.pop(_AT, None)
        return None
    entered = f"{here.place} {view.checkpoint}"
    if st.session_state.get(_AT) == entered:
        return None
    st.session_state[_AT] = entered
    st.session_state.pop(_LOOKED, None)
    given = url_state.given()
    st.session_state[_GIVEN] = given
    sentence = view.examples.items[0].sentence
    if here.tour.lecture:  # a teacher's sentence stays
        sentence = view.sentence or sentence
    settings = {SENTENCE.name: sentence, **here.stop.settings}
    if here.tour.lecture:
        settings |= {PRESENT.name: "on"}
        given -= {PRESENT.name}
    values = {name: value for name, value in settings.items() if name not in given}
    number = SCENE if here.tour.lecture else STOP
    kept = {GUESS.name} if here.tour.lecture else set()
    url_state.start_over({**values, number.name: str(here.number)}, keep=_KEEP | given | kept)
    return page_at(here.stop.page)


def _stepped(here: TourStop, step: int) -> TourStop:
    """Go one stop further or back; in a lecture, one beat."""
    before, beats, there = url_state.get(GUESS), st.session_state.get(BEATS), None
    if here.tour.lecture and beats is None and step > 0 and before is None:
        url_state.put(GUESS, 0)  # the scene is being computed: only a second press skips it
    elif here.tour.lecture and 0 <= (beat := min(before or 0, beats or 0) + step) <= (beats or 0):
        url_state.put(GUESS, beat)
    elif (there := beside(here, step)) is not None:
        go_to(there.tour, there.number, LAST if there.tour.lecture and step < 0 else None)
        st.session_state.pop(BEATS, None)
    return there or here


def draw_bar(view: View, on: Page) -> None:
    """Draw the bar above the page `on`, which stays hidden until the question is answered."""
    here = current_stop()
    if here is None or not view.checkpoint:
        return
    url_state.show(TOUR, STOP)
    stop = here.stop
    elsewhere = page_at(stop.page)
    away = elsewhere is not on
    waiting = not away and url_state.get(GUESS) is None
    # The same container before and after the answer, so that the browser changes it in place.
    with st.container(key="tour", gap="xsmall"):
        _draw_head(here)
        if away:
            st.markdown(f"This stop is on the page **{elsewhere.title}**.")
            st.button(
                f"Go to {elsewhere.title}", key="tour_there", icon=":material/arrow_forward:",
                on_click=go_to, args=(here.tour, here.number),
            )  # fmt: skip
            return
        st.markdown(_glossed(stop.text))
        state = "waiting" if waiting else "shows" if stop.shows else "answered"
        body = st.container(key=f"tour_{state}", gap="xsmall")
        question = body.container(gap="xsmall")
        if waiting:
            body.container(key="tour_veil").caption("The page appears once you answer.")
        scene = scene_of(view)  # may end the run with a message, below the bar's head
        show_subject(here, view, scene)
        with question:
            _draw_question(here, stop.question(scene))
            if not waiting and here.number == len(here.tour.stops):
                _draw_end(here.tour, scene)


def scene_of(view: View) -> Scene:
    """Return what questions about the view may use; they concern the model without edits."""
    view = view.original
    entry = view.entry
    trace, config = get_trace(view), cast("ModelConfig", entry.config)
    opened = study_of(entry.ref)
    return Scene(
        trace, config, entry.metrics, position_vectors.trained_positions(entry.metrics),
        opened.study if opened else None,
        lambda: computed(view, NEEDS),
        lambda edits: computed(view, together(single_heads(parse_edits(edits), config))).tolist(),
        lambda edits: computed(view, effect_of(edits)).text,
        lambda: find_broken(view), partial(computed, view), lambda: _moments(view),
    )  # fmt: skip


def _moments(view: View) -> dict[int, Trace]:
    """Return the sentence's translations by the model's snapshots."""
    listing, whole = entries(), view.entry.whole
    taken = scene_facts.spread(moments(view.entry))
    found = [(updates, resolve(at(whole, updates), listing)[0]) for updates in taken]
    views = {updates: replace(view, entry=entry) for updates, entry in found if entry}
    traces = prepare(view, [there.request for there in views.values()])
    return {updates: trace for updates, trace in zip(views, traces, strict=True) if trace}


def show_subject(here: TourStop, view: View, scene: Scene) -> None:
    """Set the page to the subject of the question, once for each sentence."""
    looked = f"{here.tour.name} {here.number} {view.original.request!r}"
    before = st.session_state.get(_LOOKED)
    if before == looked:
        return
    given = st.session_state.pop(_GIVEN, frozenset())
    settings = here.stop.facts(scene).settings if here.stop.facts else {}
    url_state.bring({name: value for name, value in settings.items() if name not in given})
    if before is not None:
        url_state.forget(GUESS)  # it answered a question about another sentence
    st.session_state[_LOOKED] = looked
    if "edit" in settings and "edit" not in given:
        st.rerun()  # the view is that of the edited model


def _draw_head(here: TourStop) -> None:
    back, following = beside(here, -1), beside(here, 1)
    with st.container(
        key="tour_head", horizontal=True, horizontal_alignment="right",
        vertical_alignment="center", gap="small",
    ):  # fmt: skip
        st.markdown(
            f"**{here.stop.title}** :gray[· {here.tour.title} {here.number} of "
            f"{len(here.tour.stops)} · section {here.stop.section}]",
            width="stretch",
        )
        if url_state.get(GUESS) is not None:
            st.button(
                "Ask again", key="tour_again", type="tertiary", icon=":material/replay:",
                **sets(GUESS, None),
            )  # fmt: skip
        st.button(
            "Back", key="tour_back", type="tertiary", icon=":material/arrow_back:",
            disabled=back is None, on_click=go_to,
            args=(back.tour, back.number) if back else (),
        )  # fmt: skip
        if following is not None:
            on = following.tour is here.tour
            st.button(
                "Next" if on else f"Next tour: {following.tour.title}", key="tour_next",
                type="tertiary", icon=":material/arrow_forward:", icon_position="right",
                on_click=go_to, args=(following.tour, following.number),
            )  # fmt: skip
        st.button(
            "Leave", key="tour_leave", type="tertiary", icon=":material/close:", on_click=leave
        )


def _draw_end(tour: Tour, scene: Scene) -> None:
    """Draw how many answers were right, and the sheet of the tour's questions to print."""
    answers = [
        right for (name, _), right in st.session_state[_RESULTS].items() if name == tour.name
    ]
    if answers:
        st.markdown(f"**Right answers in this tour: {sum(answers)} of {len(answers)}.**")
    link = {TOUR: tour.name, **{param: url_state.get(param) for param in (CHECKPOINT, SENTENCE)}}
    query = urlencode({param.name: value for param, value in link.items()})
    make = partial(sheet, tour, scene, f"{urljoin(st.context.url or '', '.')}?{query}")
    st.download_button(
        "Questions and answers to print", make, f"tour-{tour.name}.html",
        "text/html", key="tour_sheet", on_click="ignore", icon=":material/print:", type="tertiary",
    )  # fmt: skip


def _draw_question(here: TourStop, question: Question) -> None:
    guess = url_state.get(GUESS)
    if guess is None:
        st.markdown(_glossed(question.ask if "**" in question.ask else f"**{question.ask}**"))
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.pills(
                "Predict before you see", range(len(question.options)),
                format_func=lambda i: plain(question.options[i]),
                label_visibility="collapsed", width="content",
                **filled("tour_guess", None, lambda chosen: url_state.put(GUESS, chosen + 1)),
            )  # fmt: skip
            st.button("Show me", key="tour_show", type="tertiary", **sets(GUESS, 0))
        return
    right = f"**{plain(question.options[question.answer])}**"
    results = st.session_state.setdefault(_RESULTS, {})
    if guess:
        results[here.tour.name, here.number] = guess - 1 == question.answer
    if not 1 <= guess <= len(question.options):
        verdict = f"Answer: {right}."
    elif guess - 1 == question.answer:
        verdict = f":material/check: Your answer is right: {right}."
    else:
        yours = plain(question.options[guess - 1])
        verdict = f":material/close: Your answer: “{yours}”. Right answer: {right}."
    st.markdown(f"{one_stop(verdict)} {_glossed(question.because)}")


def _glossed(text: str) -> str:
    return linked(text, *TERMS_OF_TOURS)
