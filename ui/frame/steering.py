"""Steering: a prefix that the translation must begin with, or a whole target to follow.

A prefix is stored as token ids, since the tokenizer may split the text of a chosen token in another
way. Ids belong to one checkpoint; changing it drops them. A new sentence drops all steering. Every
steer of the session can be undone.
"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from ui.core import url_state
from ui.core.glossary import linked
from ui.core.url_state import Param
from ui.core.view import CHECKPOINT
from ui.frame.decoding import restart

#: Limit of the text field; a model's own limit is counted in tokens.
MAX_TARGET_CHARACTERS = 10_000

_STEERS = "headlight_steers"
_MESSAGE = "headlight_steer_message"
_MOST_STEERS = 50
_MOST_IDS = 2_000


def _parse_ids(raw: str) -> tuple[int, ...]:
    parts = raw.split(".") if raw else []
    if len(parts) > _MOST_IDS:
        raise ValueError(raw)
    return tuple(url_state.whole(0, 9_999_999)(part) for part in parts)


def _parse_target(raw: str) -> str | None:
    if len(raw) > MAX_TARGET_CHARACTERS:
        raise ValueError("too long")
    return raw if raw.strip() else None


#: The translation's first token ids; with `</s>` at the end, all of them.
PREFIX: Param[tuple[int, ...]] = Param(
    "prefix", _parse_ids, (), lambda ids: ".".join(map(str, ids))
)
#: A whole translation to read by teacher forcing, in place of a search.
TARGET: Param[str | None] = Param("target", _parse_target, None)


def begin_with(ids: Sequence[int]) -> None:
    """Set the prefix, as token ids."""
    _remember()
    url_state.forget(TARGET)
    url_state.put(PREFIX, tuple(ids))
    restart_here()


def follow_target(text: str) -> None:
    """Set the whole translation, as text."""
    _remember()
    url_state.forget(PREFIX)
    url_state.put(TARGET, text)
    restart()


def undo() -> None:
    """Undo the last steer; steering from a link is undone at once."""
    steers = st.session_state.get(_STEERS, [])
    prefix, target = steers.pop() if steers else ((), None)
    url_state.put(PREFIX, prefix)
    url_state.put(TARGET, target)
    restart_here()


def start_over() -> None:
    """Remove all steering, which can be undone too."""
    if is_steered():
        _remember()
        url_state.forget(PREFIX, TARGET)
        restart_here()


def drop_steering() -> None:
    """Remove all steering and its history, for a new sentence."""
    drop_message()
    url_state.forget(PREFIX, TARGET)
    st.session_state.pop(_STEERS, None)


def use_checkpoint(name: str) -> None:
    """Make this the checkpoint of every page. A callback."""
    url_state.put(CHECKPOINT, name)
    drop_ids()
    restart()


def drop_ids() -> None:
    """Remove the ids of one checkpoint."""
    if url_state.get(PREFIX):
        url_state.forget(PREFIX)
    st.session_state.pop(_STEERS, None)


def is_steered() -> bool:
    """Return whether there is a prefix or a target."""
    return bool(url_state.get(PREFIX)) or url_state.get(TARGET) is not None


def can_undo() -> bool:
    """Return whether there is a steer to undo, of this session or from a link."""
    return is_steered() or bool(st.session_state.get(_STEERS))


def resolve_steering(sentence: Param[str]) -> None:
    """Drop a prefix when a link brings another sentence, and a prefix beside a target."""
    if url_state.arrived(PREFIX, TARGET):
        st.session_state.pop(_STEERS, None)  # earlier steers do not lead to the link's
    in_url = PREFIX.name in st.query_params or TARGET.name in st.query_params
    if url_state.arrived(sentence) and not in_url:
        drop_steering()
    if url_state.get(TARGET) is not None and url_state.get(PREFIX):
        url_state.forget(PREFIX)
    url_state.show(PREFIX, TARGET)


def draw_steering() -> None:
    """Draw a note with Undo and Start over if the translation is steered."""
    if not is_steered() and not can_undo():
        return
    with st.container(key="steering"):
        if url_state.get(TARGET) is not None:
            said = "The translation is given (teacher forcing)."
        elif url_state.get(PREFIX):
            count = len(url_state.get(PREFIX))
            tokens = "token is" if count == 1 else f"{count} tokens are"
            said = f"Steered with a prefix: the first {tokens} given."
        else:
            said = "Not steered any more."
        st.caption(":material/alt_route: " + linked(said, "teacher forcing", "prefix"))
        with st.container(horizontal=True, gap="small"):
            st.button(
                "Undo", icon=":material/undo:", key="steer_undo", on_click=undo,
                disabled=not can_undo(), help="Take the last steer back.",
            )  # fmt: skip
            st.button(
                "Start over", icon=":material/restart_alt:", key="steer_over", on_click=start_over,
                disabled=not is_steered(), help="Let the model translate by itself.",
            )  # fmt: skip


def put_message(text: str) -> None:
    """Show what is wrong with the typed text, until it changes."""
    st.session_state[_MESSAGE] = text


def drop_message() -> None:
    """Remove the message."""
    st.session_state.pop(_MESSAGE, None)


def message() -> str:
    """Return what is wrong with the typed text, or ""."""
    return str(st.session_state.get(_MESSAGE, ""))


def restart_here() -> None:
    """Restart for another translation of the sentence, but keep the player's step."""
    step = url_state.get(url_state.STEP)
    restart()
    if step is not None:
        url_state.put(url_state.STEP, step)


def _remember() -> None:
    drop_message()
    steers = st.session_state.setdefault(_STEERS, [])
    steers.append((url_state.get(PREFIX), url_state.get(TARGET)))
    del steers[:-_MOST_STEERS]
