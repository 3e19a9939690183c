"""The attention of both sides: which kind, how to look at it, and the heads that match."""

from __future__ import annotations

import streamlit as st

from transformer.trace.records import Trace
from ui.compare.choice import BESIDE, Setup, kind_now, shared_kinds
from ui.compare.maps.differences import draw_differences, offer_differences
from ui.compare.maps.exhibits import offer_maps, offer_numbers
from ui.compare.maps.heads import draw_heads
from ui.compare.maps.numbers import draw_numbers
from ui.compare.maps.views import (
    Both,
    draw_displays,
    draw_kinds,
    draw_maps,
    draw_options,
    read_both,
)
from ui.compare.sides import Bar
from ui.core import url_state
from ui.core.units import UNITS


def draw_attention(setup: Setup, left: Trace, right: Trace, bar: Bar) -> None:
    """The maps, their difference, all of them, or lines."""
    display = url_state.get(BESIDE)
    both = _read(setup, left, right, display, bar)
    if both is None:
        return
    if display == "differences":
        with bar.aside:
            offer_differences(both)
        draw_differences(both)
        return
    with bar.aside:
        offer_maps(both, display)
    draw_maps(both, display)


def draw_figures(setup: Setup, left: Trace, right: Trace, bar: Bar) -> None:
    """What both are measured to be, and what each thinks of the other."""
    draw_numbers(setup, left, right)
    with bar.aside:
        offer_numbers(setup)


def draw_matched(setup: Setup, left: Trace, right: Trace, bar: Bar) -> None:
    """Heads beside the most alike ones."""
    both = _read(setup, left, right, "matrix", bar, displays=False)
    if both is not None:
        draw_heads(both, bar.aside)


def _read(
    setup: Setup,
    left: Trace,
    right: Trace,
    display: str,
    bar: Bar,
    *,
    displays: bool = True,
) -> Both | None:
    """Draw the controls, and read what they say; None where there is nothing to compare."""
    kinds = shared_kinds(left, right)
    if not kinds:
        st.info("These two have no kind of attention in common.", icon=":material/info:")
        return None
    kind = kind_now(kinds)
    with bar.controls.container(key="compare_maps", horizontal=True, vertical_alignment="center"):
        draw_kinds(kinds, kind)
        if displays:
            draw_displays()
        draw_options()
    return read_both(setup, left, right, kind, url_state.get(UNITS), display)
