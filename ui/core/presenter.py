"""Presenter mode, with larger type and fewer controls, and keyboard shortcuts.

Presenter mode hides the sidebar and header and multiplies the root font size by `SCALE`. Sizes in
px, such as canvas text, are multiplied by the CSS variable `--hl-scale`, normally 1; charts are
zoomed by it.
"""

from pathlib import Path

import streamlit as st

from ui.components.mount import show
from ui.components.packing import Component
from ui.core import url_state
from ui.core.url_state import Param

#: Type magnification in presenter mode.
SCALE = 1.35

PRESENT: Param[bool] = url_state.switch("present")

Key = tuple[tuple[str, ...], str, str, str]

#: App shortcuts: `KeyboardEvent.key` (with "Shift+" if held), label, description, and the word that
#: the browser reports.
KEYS: tuple[Key, ...] = (
    (("Shift+P",), "Shift P", "presenter mode on and off", "present"),
    (("Shift+ArrowRight",), "Shift →", "next page", "next-page"),
    (("Shift+ArrowLeft",), "Shift ←", "previous page", "previous-page"),
    (("n",), "N", "next stop of the tour", "next-stop"),
    (("b",), "B", "previous stop of the tour", "previous-stop"),
)

#: Shortcuts of a lecture; clickers send Page Up and Page Down, and a full stop to blank.
LECTURE_KEYS: tuple[Key, ...] = (
    (("PageDown", "ArrowRight", "ArrowDown", " "), "→, Space, Page ↓", "go on", "next-stop"),
    (("PageUp", "ArrowLeft", "ArrowUp"), "←, Page ↑", "go back", "previous-stop"),
    (("End",), "End", "to the answer", "show-answer"),
    (("b", "."), "B", "blank the screen, and back", "blank"),
)  # fmt: skip

#: Shortcuts handled by components, for the list on screen.
PICTURE_KEYS: tuple[tuple[str, str], ...] = (
    ("← →", "step through the translation, or move in a picture"),
    ("Space", "play and pause, in the player"),
    ("p", "play and pause, in the whole model"),
    ("⏎ Esc ↑ ↓", "unfold and fold a block, and change the layer, in the whole model"),
    ("Shift ⏎", "mark one more head, in the grid"),
    ("Delete", "take a head out or bring it back, in the grid"),
    ("Tab", "to the next control"),
)

_GO = "headlight_go"
_STYLES = Path(__file__).parents[1] / "platform"


def presenting() -> bool:
    """Return True in presenter mode."""
    return url_state.get(PRESENT)


def draw_presenter(touring: bool, lecturing: bool = False, evidence: str = "") -> None:
    """Draw the list of shortcuts; in presenter mode, hide the rest of the frame.

    Args:
        touring: True if tour shortcuts apply.
        lecturing: True if a lecture has the keys and the window.
        evidence: id or class to scroll to once.
    """
    on = presenting()
    if not lecturing:
        url_state.show(PRESENT)
    for name in ["presenting"] * on + ["lecture"] * lecturing:
        css = (_STYLES / f"{name}.css").read_text("utf-8")
        st.html(f"<style class='{name}'>{css}</style>")  # keys.js turns off what stays behind
    keys = [key for key in KEYS if touring or not key[3].endswith("-stop")]
    if on:  # a clicker's keys; B blanks in place of going back
        to = "stop" if touring else "page"
        down: Key = (("PageDown",), "Page ↓", f"next {to}", f"next-{to}")
        up: Key = (("PageUp",), "Page ↑", f"previous {to}", f"previous-{to}")
        keys = [*keys[:4], down, up, LECTURE_KEYS[-1]]
    data = {
        "presenting": on,
        "lecturing": lecturing,
        "evidence": evidence,
        "keys": LECTURE_KEYS if lecturing else keys,
        "more": () if lecturing else PICTURE_KEYS,
    }
    show(Component("keys", data), key="frame_keys", on_go_change=_pressed)


def pressed() -> tuple[str, int]:
    """Return and forget what keys turned, "page", "stop", "lecture" or "answer", and how far."""
    kind, far = st.session_state.pop(_GO, ("", 0))
    return str(kind), int(far)


def _pressed() -> None:
    go = st.session_state["frame_keys"].get("go")
    if go == "present":
        url_state.put(PRESENT, not presenting())
    elif isinstance(go, str):
        way, _, kind = go.partition("-")
        # A press may end the run of the press before.
        before, far = st.session_state.get(_GO, (kind, 0))
        far = far * (before == kind) + {"next": 1, "previous": -1}.get(way, 0)
        st.session_state[_GO] = kind, far
