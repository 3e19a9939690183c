"""The position vectors that each model adds, and their difference."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import streamlit as st

from figures.exhibit import Exhibit
from figures.markdown import plain
from transformer.measures.compare import difference
from transformer.trace import position_vectors
from ui.compare.choice import Setup
from ui.compare.rooms.position_exhibits import (
    STACKS,
    positions_exhibit,
    positions_stem,
    why_not_subtracted,
)
from ui.compare.sides import CompareRoom, Download, Pair, compared
from ui.core.glossary import term
from ui.core.side import Side
from ui.core.view import View
from ui.core.widgets import bound, choose_one
from ui.positions.own import OwnPositions, own_positions
from ui.positions.sections import PositionsChoice, draw_positions
from ui.work.cache import get_translator
from ui.work.models import translator


def _draw(pair: Pair) -> Download | None:
    """Both tables, and below them their difference where they have the same size."""
    length, which = pair.controls.columns([3, 2], gap="large", vertical_alignment="bottom")
    n = length.slider(
        "Positions", 8, 512, help=term("positional encoding"), **bound(PositionsChoice.length)
    )
    stack = choose_one("Stack", PositionsChoice.side, STACKS, which)
    found = {
        side.letter: own_positions(get_translator(side.view), STACKS[stack], n)
        for side in pair.shown
    }

    def table(side: Side) -> None:
        own = found[side.letter]
        st.markdown(f"{side.lead}{plain(own.about)}")
        count, width = own.table.shape
        draw_positions(
            st.container(), own.table, side.key("positions"),
            f"{side.letter}: what is added at {count} positions in {width} dimensions.",
            height=330, trained=position_vectors.trained_positions(side.view.entry.metrics),
        )  # fmt: skip

    pair.rows(table)
    pair.links()
    if len(found) == 2:
        _draw_difference(found["A"], found["B"])
    if not found:
        return None
    views = {side.letter: side.view for side in pair.shown}
    return Download(
        partial(_make, pair.setup, views, stack, n), positions_stem(stack),
        2 * sum(own.table.size for own in found.values()),
    )  # fmt: skip


def _lacks(setup: Setup, side: Side) -> str | None:
    if side.view.kind == "checkpoint":
        return None
    return (
        f"{side.view.checkpoint} is no checkpoint of this project, and only those give out the "
        "vectors of their positions."
    )


def _draw_difference(left: OwnPositions, right: OwnPositions) -> None:
    why = why_not_subtracted(left, right)
    if why:
        st.info(why, icon=":material/join_inner:")
        return
    apart = difference(left.table, right.table)
    most = float(np.abs(apart).max())
    if most == 0:
        st.markdown("**A − B:** both add exactly the same at every position.")
        return
    st.markdown(f"**A − B:** they differ by up to {most:.3g}.")
    draw_positions(
        st.container(), apart, "positions_difference",
        f"What A adds less what B adds, by up to {most:.3g}.", height=330, limit=most,
    )  # fmt: skip


def _make(setup: Setup, views: Mapping[str, View], stack: str, n: int) -> Exhibit:
    tables = {
        letter: own_positions(translator(view), STACKS[stack], n) for letter, view in views.items()
    }
    return positions_exhibit(tables, stack, n, compared(setup))


ROOM = CompareRoom(
    "positions", _draw, page="positions", lacks=_lacks,
    params=(PositionsChoice.length, PositionsChoice.side),
)  # fmt: skip
