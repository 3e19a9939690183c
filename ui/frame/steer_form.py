"""The form for a prefix or a whole translation."""

from __future__ import annotations

import streamlit as st

from figures.markdown import plain
from transformer.errors import InputError
from ui.core import url_state
from ui.core.glossary import linked
from ui.core.view import View
from ui.frame.steering import (
    MAX_TARGET_CHARACTERS,
    PREFIX,
    TARGET,
    begin_with,
    drop_message,
    follow_target,
    message,
    put_message,
)
from ui.work.cache import get_translator
from ui.work.models import translator

_BEGINS, _IS = "Begins with", "Is exactly"
_HOW, _TEXT = "steer_how", "steer_text"
_SEEN = "headlight_steer_seen"


def draw_steer_form(view: View) -> None:
    """Draw the form, filled with the current prefix or target."""
    model = get_translator(view)
    given = (view.prefix, view.target)
    known = _HOW in st.session_state and st.session_state.get(_SEEN) == given
    if not known:
        st.session_state[_SEEN] = given
        ids = [token for token in view.prefix if token != model.config.eos_id]
        st.session_state[_TEXT] = view.target or model.tokenizer.target.decode(ids)
        st.session_state[_HOW] = _BEGINS if view.target is None else _IS
    # The browser creates a popover's widgets when it opens and loses values set in an earlier run,
    # so they become the defaults.
    with st.form("steer_form", border=False):
        st.segmented_control(
            "The translation", [_BEGINS, _IS], default=st.session_state[_HOW] if known else None,
            key=_HOW, required=True, width="stretch",
        )  # fmt: skip
        st.text_input(
            "Text in the target language", st.session_state[_TEXT] if known else "", key=_TEXT,
            max_chars=MAX_TARGET_CHARACTERS, placeholder="Type the first words, or all of it",
        )  # fmt: skip
        st.form_submit_button(
            "Decode from there", icon=":material/alt_route:", on_click=_take, args=(view,),
            width="stretch",
        )  # fmt: skip
    if message():
        st.warning(plain(message()), icon=":material/short_text:")
    st.caption(
        linked(
            "A beginning (a prefix) is given and the search goes on from it. A whole translation "
            "is read in one pass (teacher forcing). The bars do the same for one token: choose "
            "another candidate.", "prefix", "teacher forcing",
        )
    )  # fmt: skip


def _take(view: View) -> None:
    text = str(st.session_state[_TEXT]).strip()
    drop_message()
    if not text:
        put_message("Type at least one character, or press Start over on the left.")
        return
    try:
        model = translator(view)
        ids = model.tokenize_target(text).ids
        if st.session_state[_HOW] == _BEGINS:
            begin_with(ids)
            # The first step that the model chooses itself.
            url_state.put(url_state.STEP, len(ids) + 1)
        else:
            follow_target(text)
    except InputError as error:
        reason = str(error).replace("the sentence", "the text")
        put_message(f"{reason[:1].upper()}{reason[1:]}.")


def out_of_date(view: View) -> bool:
    """Return whether steering has changed since the view was drawn, so the page must rerun."""
    return (url_state.get(PREFIX), url_state.get(TARGET)) != (view.prefix, view.target)
