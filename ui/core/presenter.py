"""Presenter mode: larger type and fewer controls for a projector, and the keys of the frame.

While presenting, the sidebar and the header are gone, captions keep to one line, and the root's
type is `SCALE` times as large, so every size in rem grows by itself. Sizes in px, such as text on a
canvas, are multiplied by the CSS variable `--hl-scale`, which is 1 otherwise.
"""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from ui.components.mount import component
from ui.core import url_state
from ui.core.url_state import Param

#: How much larger type is while presenting.
SCALE = 1.35

PRESENT: Param[bool] = Param("present", url_state.parse_switch, False, url_state.write_switch)

#: Every key of the frame: what is pressed (`KeyboardEvent.key`, with Shift where it says so), how
#: it is written, what it does, and the word that comes back for it.
KEYS: tuple[tuple[str, str, str, str], ...] = (
    ("Shift+P", "Shift P", "presenter mode on and off", "present"),
    ("Shift+ArrowRight", "Shift →", "next page", "next-page"),
    ("Shift+ArrowLeft", "Shift ←", "previous page", "previous-page"),
    ("n", "N", "next stop of the tour", "next-stop"),
    ("b", "B", "back one stop of the tour", "previous-stop"),
)

#: What the picture on a page does with keys, for the list; components see to these themselves.
PICTURE_KEYS: tuple[tuple[str, str], ...] = (
    ("← →", "step through the translation, or move in a picture"),
    ("Space", "play and pause, in the player"),
    ("Shift ⏎", "mark one more head, in the grid"),
    ("Tab", "to the next control"),
)

_GO = "headlight_go"
_PRESENTING = Path(__file__).parents[1] / "components" / "keys" / "presenting.css"
_component = component("keys")


def presenting() -> bool:
    """Whether presenter mode is on."""
    return url_state.get(PRESENT)


def draw_presenter(title: str, touring: bool) -> None:
    """Draw the hint with the keys, and while presenting take away what is not the picture.

    Args:
        title: of the page on screen; the header that says so otherwise is gone while presenting.
        touring: whether the tour's keys mean something now.
    """
    url_state.show(PRESENT)
    on = presenting()
    if on:
        st.html(f"<style>{_PRESENTING.read_text('utf-8')}</style>")
    wanted = ("next-stop", "previous-stop") if not touring else ()
    keys = [key for key in KEYS if key[3] not in wanted]
    data = {
        "presenting": on,
        "title": title,
        "keys": [[pressed, label, does, go] for pressed, label, does, go in keys],
        "more": [list(pair) for pair in PICTURE_KEYS],
        # Clickers send these; elsewhere they scroll.
        "clicker": on and touring,
    }
    _component(key="frame_keys", data=data, on_go_change=_pressed)


def wanted_step(kind: str) -> int:
    """How far a key asked to go, -1, 0 or 1, of kind "page" or "stop"; asked once."""
    go = st.session_state.get(_GO, "")
    step = {f"next-{kind}": 1, f"previous-{kind}": -1}.get(go, 0)
    if step:
        del st.session_state[_GO]
    return step


def _pressed() -> None:
    go = st.session_state["frame_keys"].get("go")
    if go == "present":
        url_state.put(PRESENT, not presenting())
    elif isinstance(go, str):
        st.session_state[_GO] = go
