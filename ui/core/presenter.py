"""Presenter mode, with larger type and fewer controls, and keyboard shortcuts.

Presenter mode hides the sidebar and header and multiplies the root font size by `SCALE`. Sizes in
px, such as canvas text, are multiplied by the CSS variable `--hl-scale`, normally 1; charts are
zoomed by it.
"""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from ui.components.mount import show
from ui.components.packing import Component
from ui.core import url_state
from ui.core.url_state import Param

#: Type magnification in presenter mode.
SCALE = 1.35

PRESENT: Param[bool] = url_state.switch("present")

#: App shortcuts: `KeyboardEvent.key` (with "Shift+" if held), label, description, and the word that
#: the browser reports.
KEYS: tuple[tuple[str, str, str, str], ...] = (
    ("Shift+P", "Shift P", "presenter mode on and off", "present"),
    ("Shift+ArrowRight", "Shift →", "next page", "next-page"),
    ("Shift+ArrowLeft", "Shift ←", "previous page", "previous-page"),
    ("n", "N", "next stop of the tour", "next-stop"),
    ("b", "B", "previous stop of the tour", "previous-stop"),
)

#: Shortcuts handled by components, for the list on screen.
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
    """Draw the list of shortcuts; in presenter mode, hide the rest of the frame.

    Args:
        title: page title, shown because the header is hidden.
        touring: True if tour shortcuts apply.
    """
    url_state.show(PRESENT)
    on = presenting()
    if on:
        st.html(f"<style>{_PRESENTING.read_text('utf-8')}</style>")
    keys = [key for key in KEYS if touring or not key[3].endswith("-stop")]
    data = {
        "presenting": on,
        "title": title,
        "keys": [[pressed, label, does, go] for pressed, label, does, go in keys],
        "more": [list(pair) for pair in PICTURE_KEYS],
        # Clickers send Page Up and Page Down, which scroll elsewhere.
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
