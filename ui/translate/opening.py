"""The opening: when it plays, and what it asks of the model.

It plays once for a browser, where a session begins on Translate at an address without any setting;
a cookie remembers it, so that the server need not draw it first to find out. The page stands behind
it, hidden by opening.js, and appears when it is over.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import streamlit as st

from ui.components.opening import encode
from ui.components.opening.mount import opening
from ui.core import url_state
from ui.core.examples import Example, Riddle, languages_of_training
from ui.core.url_state import Param
from ui.core.view import View, ask_for, times_asked
from ui.translate.opening_words import (
    first_scene,
    no_second,
    script,
    second_scene,
    stage,
    stage_beside,
)
from ui.work.cache import get_trace

#: In a link: 1 plays the opening, 0 leaves it out, as does any other setting.
OPENING: Param[str] = Param("opening", url_state.one_of(("0", "1")), "")

#: The cookie's name and value; also in opening.js.
COOKIE, SEEN = "headlight_opening", "seen"

#: In the session: the request that it plays for, "" once it is over, `_ASKED` before it begins.
_PLAYS = "headlight_opening"
_ASKED = "asked"
#: In the session: whether the page is drawn behind it, and whether the second scene is asked for.
_COVERS = "headlight_opening_covers"
_SECOND = "headlight_opening_second"
#: In the session: how often a sentence had been asked for when it began.
_ASKS = "headlight_opening_asks"


def riddle_of(view: View) -> tuple[Example, Riddle] | None:
    """Return the checkpoint's example with a riddle in its language, None if it has none."""
    _, target = _languages(view)
    for example in view.examples.items:
        if view.kind == "checkpoint" and example.riddle and target in example.riddle.target:
            return example, example.riddle
    return None


def opening_plays(view: View) -> bool:
    """Decide and return whether the opening plays in this run of the page."""
    if url_state.arrived(OPENING):
        st.session_state[_PLAYS] = _ASKED if url_state.get(OPENING) == "1" else ""
    elif _PLAYS not in st.session_state:
        first = url_state.opens_plainly() and st.context.cookies.get(COOKIE) != SEEN
        st.session_state[_PLAYS] = _ASKED if first else ""
    elif url_state.entered():
        st.session_state[_PLAYS] = _ASKED if st.session_state[_PLAYS] == _ASKED else ""
    url_state.forget(OPENING)
    if st.session_state[_PLAYS] == _ASKED:
        st.session_state[_PLAYS] = view.request.name
        st.session_state[_ASKS] = times_asked()
        st.session_state[_COVERS] = st.session_state[_SECOND] = False
    found = riddle_of(view)
    steered = bool(view.prefix) or view.target is not None
    asked = st.session_state.get(_ASKS) != times_asked()
    if found is None or steered or asked or view.sentence != found[0].sentence:
        st.session_state[_PLAYS] = ""
    return bool(st.session_state[_PLAYS] == view.request.name)


def draw_opening(view: View) -> bool:
    """Draw the opening; return whether the page waits until it stands.

    The page is drawn behind it in a run of its own, so that the first screen is quick.
    """
    found = riddle_of(view)
    staged = stage(get_trace(view), found[1]) if found else None
    if found is None or staged is None:
        st.session_state[_PLAYS] = ""
        return False
    example, riddle = found
    second, missing = None, ""
    if st.session_state[_SECOND]:
        beside = stage_beside(get_trace(replace(view, sentence=example.beside)), riddle, staged)
        if beside is None:
            missing = no_second(example, riddle)
        else:
            agreement = riddle.target[_languages(view)[1]]
            second = second_scene(staged, beside, riddle, agreement)
    words, covers = script(example, riddle, _languages(view)), bool(st.session_state[_COVERS])
    opening(
        encode(words, first_scene(staged, riddle), second, missing, covers=covers),
        key="opening_play",
        on_covers_change=partial(_put, _COVERS, True),
        on_second_change=partial(_put, _SECOND, True),
        on_over_change=partial(_put, _PLAYS, ""),
    )
    return not covers


def offer_opening(view: View) -> None:
    """Offer to play the opening, again or at last."""
    found = riddle_of(view)
    if found is None:
        return

    def play() -> None:
        st.session_state[_PLAYS] = _ASKED
        ask_for(found[0].sentence)

    st.button(
        "Play the opening", key="play_opening", type="tertiary", icon=":material/play_circle:",
        on_click=play,
    )  # fmt: skip


def _languages(view: View) -> tuple[str, str]:
    return languages_of_training(view.checkpoint, view.entry.metrics)


def _put(key: str, value: object) -> None:
    st.session_state[key] = value
