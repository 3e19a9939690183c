"""Presenter mode, with larger type and fewer controls for a projector, and keyboard shortcuts.

While presenting, sidebar and header are hidden, and the root font is
`SCALE` times as large, so that sizes in rem grow with it. Sizes in px, such as text on a canvas,
are multiplied by the CSS variable `--hl-scale`, which is 1 otherwise.
"""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from ui.components.mount import show
from ui.components.packing import Component
from ui.core import url_state
from ui.core.url_state import Param

#: Magnification of type while presenting.
SCALE = 1.35

PRESENT: Param[bool] = url_state.switch("present")

#: Shortcuts of the app: `KeyboardEvent.key` (after "Shift+" if that is held), the label, what it
#: does, and the word that the browser reports.
KEYS: tuple[tuple[str, str, str, str], ...] = (
    ("Shift+P", "Shift P", "presenter mode on and off", "present"),
    ("Shift+ArrowRight", "Shift →", "next page", "next-page"),
    ("Shift+ArrowLeft", "Shift ←", "previous page", "previous-page"),
    ("n", "N", "next stop of the tour", "next-stop"),
    ("b", "B", "previous stop of the tour", "previous-stop"),
)

#: Shortcuts that components handle themselves, for the list on screen.
PICTURE_KEYS: tuple[tuple[str, str], ...] = (
    ("← →", "step through the translation, or move in a picture"),
    ("Space", "play and pause, in the player"),
    ("Shift ⏎", "mark one more head, in the grid"),
    ("Delete", "take a head out or bring it back, in the grid"),
    ("Tab", "to the next control"),
)

_GO = "headlight_go"
_PRESENTING = Path(__file__).parents[1] / "platform" / "presenting.css"


def presenting() -> bool:
    """Return True in presenter mode."""
    return url_state.get(PRESENT)


def draw_presenter(title: str, touring: bool) -> None:
    """Draw the hint with the shortcuts; while presenting, hide the rest of the frame.

    Args:
        title: of the page, since its header is hidden while presenting.
        touring: whether the shortcuts of tours apply now.
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
        # Page Up and Page Down, which clickers send and which scroll otherwise.
        "clicker": on and touring,
    }
    show(Component("keys", data), key="frame_keys", on_go_change=_pressed)


def pressed() -> tuple[str, int]:
    """Return and forget the last pressed key: "page" or "stop", and -1 or 1; ("", 0) for none."""
    way, _, kind = str(st.session_state.pop(_GO, "")).partition("-")
    return kind, {"next": 1, "previous": -1}.get(way, 0)


def _pressed() -> None:
    go = st.session_state["frame_keys"].get("go")
    if go == "present":
        url_state.put(PRESENT, not presenting())
    elif isinstance(go, str):
        st.session_state[_GO] = go
