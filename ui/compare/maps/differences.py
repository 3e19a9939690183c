"""The differences of all heads at once with the chosen one large, or the entropy of every head."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import streamlit as st

from figures.attention import head_table
from figures.markdown import plain
from transformer.measures.entropy import EVENNESS_RULE, evenness
from ui.compare.choice import choose_left, join_cells
from ui.compare.maps.pairing import (
    changed_places,
    difference_map,
    joined_choices,
    signed_sheet,
    without_partner,
)
from ui.compare.maps.views import Both, difference_words, say_unpaired
from ui.compare.programs import LETTERS
from ui.components.grid import Cell, Sheet
from ui.components.grid.mount import attention_grid
from ui.components.lens.mount import attention_lens
from ui.core.layout import sized
from ui.core.theme import current_theme
from ui.work.results import once


def draw_differences(both: Both) -> None:
    """Draw the grid and the chosen difference; if maps cannot be subtracted, why, and entropies."""
    if not both.fit.units:
        say_unpaired(both)
        _draw_spreads(both)
        return
    choices = joined_choices(both.maps, both.choices)
    shown = difference_map(*both.maps, choices)
    grid, lens = st.columns([0.52, 0.48], gap="large")
    with grid.container():
        attention_grid(
            _get_sheet(both), chosen=choices[0].cell, on_choose=_choose,
            key="compare_differences", cell_width=76,
        )  # fmt: skip
    with lens.container():
        st.markdown(f"**{plain(shown.name)}**")
        attention_lens(shown, key="compare_difference", max_height=400)
        for line in difference_words(replace(both, choices=choices), shown)[:2]:
            st.markdown(line)
    for said in (without_partner(*both.maps), both.fit.why, changed_places(*both.maps)):
        if said:
            st.caption(said)


def _choose(cell: Cell) -> None:
    choose_left(cell)
    join_cells()


def _get_sheet(both: Both) -> Sheet:
    """The grid, made once for every session."""
    choice = both.choices[0]
    requests = tuple(view.request for view in both.views)
    key = ("differences", requests, choice.kind, choice.units, choice.how, choice.dim)
    return once(key, lambda: signed_sheet(both.maps, replace(choice, cell=(None, None))))


def _draw_spreads(both: Both) -> None:
    """Every head's entropy, side by side."""
    for side, column in enumerate(st.columns(2, gap="large")):
        with column.container():
            st.markdown(f"**{LETTERS[side]}** · how evenly each head looks")
            spread = evenness(both.maps[side].weights)
            layer, head = np.unravel_index(int(spread.argmin()), spread.shape)
            st.altair_chart(
                sized(head_table(spread.astype("f4"), current_theme(), what="share of entropy")),
                theme=None,
                alt=f"{LETTERS[side]}: share of the largest possible entropy of every head; the "
                f"least, {spread.min():.2f}, in layer {layer + 1}, head {head + 1}.",
            )
    st.caption(EVENNESS_RULE)
