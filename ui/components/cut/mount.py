"""Segmentations, mounted in a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from ui.components.cut import Cut, Piece, cuts_header, parse_choice, pieces_header
from ui.components.mount import component
from ui.components.packing import pack

_component = component("cut")


def sentence_pieces(
    pieces: Sequence[Piece],
    changed: Sequence[tuple[str, str]],
    *,
    chosen: int,
    on_choose: Callable[[int], None],
    label: str,
    key: str,
) -> None:
    """Show pieces in order and report the id of the clicked one.

    Args:
        changed: stretches of text that normalisation replaced, (before, after).
        chosen: the id to outline at every occurrence.
    """
    most = max((each.id for each in pieces), default=0)
    _mount(pieces_header(pieces, changed, chosen, label), key, most, on_choose)


def other_cuts(
    cuts: Sequence[Cut],
    *,
    chosen: int,
    on_choose: Callable[[int], None],
    label: str,
    key: str,
) -> None:
    """List segmentations and report the 0-based number of the clicked one."""
    _mount(cuts_header(cuts, chosen, label), key, len(cuts) - 1, on_choose)


def _mount(header: dict[str, Any], key: str, most: int, on_choose: Callable[[int], None]) -> None:
    def changed() -> None:
        number = parse_choice(st.session_state[key].get("chosen"), most)
        if number is not None:
            on_choose(number)

    _component(key=key, data=pack(header, b""), on_chosen_change=changed)
