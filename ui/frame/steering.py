"""Steering: what the translation has to begin with, or a whole translation to follow.

A prefix is held as token ids, since a token taken in the player need not be what the tokenizer
would make of its text. Ids are one checkpoint's own; another checkpoint drops them. A new sentence
drops all steering. One step back is kept for every steer of the session.
"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from ui.core import url_state
from ui.core.glossary import linked
from ui.core.url_state import Param
from ui.frame.decoding import restart

#: Longer texts are refused in the field; whether one is too long for a model is counted in tokens.
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


#: The first token ids of the translation; one that ends in `</s>` is the whole of it.
PREFIX: Param[tuple[int, ...]] = Param(
    "prefix", _parse_ids, (), lambda ids: ".".join(map(str, ids))
)
#: A whole translation to follow in place of a search (teacher forcing).
TARGET: Param[str | None] = Param("target", _parse_target, None)


def begin_with(ids: Sequence[int]) -> None:
    """Let the translation begin with these token ids."""
    _remember()
    url_state.forget(TARGET)
    url_state.put(PREFIX, tuple(ids))
    restart_here()


def follow_target(text: str) -> None:
    """Let the decoder follow this translation."""
    _remember()
    url_state.forget(PREFIX)
    url_state.put(TARGET, text)
    restart()


def undo() -> None:
    """Take the last steer back; what a link brought, all at once."""
    steers = st.session_state.get(_STEERS, [])
    prefix, target = steers.pop() if steers else ((), None)
    url_state.put(PREFIX, prefix)
    url_state.put(TARGET, target)
    restart_here()


def start_over() -> None:
    """Let the model translate by itself; this can be undone like a steer."""
    if is_steered():
        _remember()
        url_state.forget(PREFIX, TARGET)
        restart_here()


def drop_steering() -> None:
    """Forget all of it, for a new sentence."""
    drop_message()
    url_state.forget(PREFIX, TARGET)
    st.session_state.pop(_STEERS, None)


def drop_ids() -> None:
    """Forget what only one checkpoint understands."""
    if url_state.get(PREFIX):
        url_state.forget(PREFIX)
    st.session_state.pop(_STEERS, None)


def is_steered() -> bool:
    """Whether anything of the translation is given."""
    return bool(url_state.get(PREFIX)) or url_state.get(TARGET) is not None


def can_undo() -> bool:
    """Whether there is a steer to take back: this session's, or what a link brought."""
    return is_steered() or bool(st.session_state.get(_STEERS))


def settle_steering(sentence: Param[str]) -> None:
    """See that no prefix stays behind when a link brings another sentence, and not both ways."""
    if url_state.arrived(PREFIX, TARGET):
        st.session_state.pop(_STEERS, None)  # steers before the link are not steps towards it
    in_url = PREFIX.name in st.query_params or TARGET.name in st.query_params
    if url_state.arrived(sentence) and not in_url:
        drop_steering()
    if url_state.get(TARGET) is not None and url_state.get(PREFIX):
        url_state.forget(PREFIX)
    url_state.show(PREFIX, TARGET)


def draw_steering() -> None:
    """Say that the translation is steered, with the ways back; nothing where it is not."""
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
    """Say what is wrong with what was typed, until something else is typed."""
    st.session_state[_MESSAGE] = text


def drop_message() -> None:
    """Say nothing any more."""
    st.session_state.pop(_MESSAGE, None)


def message() -> str:
    """What is wrong with what was typed, "" where nothing is."""
    return str(st.session_state.get(_MESSAGE, ""))


def restart_here() -> None:
    """Another translation of the same sentence; the player stays at its step where it can."""
    step = url_state.get(url_state.STEP)
    restart()
    if step is not None:
        url_state.put(url_state.STEP, step)


def _remember() -> None:
    drop_message()
    steers = st.session_state.setdefault(_STEERS, [])
    steers.append((url_state.get(PREFIX), url_state.get(TARGET)))
    del steers[:-_MOST_STEERS]
