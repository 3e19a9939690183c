"""The vectors that a model adds for positions."""

from __future__ import annotations

from functools import partial

import streamlit as st

from figures.markdown import plain
from transformer.trace import position_vectors
from ui.core.glossary import term
from ui.core.side import Side
from ui.core.view import View
from ui.core.widgets import bound, choose_one
from ui.export.download import figure_for
from ui.frame.twice import Download, Pair, Twice
from ui.positions.exhibits import STACKS, OwnPositions, added_positions, own_positions
from ui.positions.views import PositionsChoice, draw_positions
from ui.work.cache import get_translator


def own_now(view: View) -> OwnPositions:
    """Return the vectors of the chosen stack, as many as are chosen."""
    chosen = PositionsChoice.read()
    return own_positions(get_translator(view), STACKS[chosen.side], chosen.length)


def draw_twice(pair: Pair) -> Download | None:
    """Draw the table that each side adds."""
    length, which = pair.controls.columns([3, 2], gap="large", vertical_alignment="bottom")
    n = length.slider(
        "Positions", 8, 512, help=term("positional encoding"), **bound(PositionsChoice.length)
    )
    stack = choose_one("Stack", PositionsChoice.side, list(STACKS), which)
    found = {side.letter: own_now(side.view) for side in pair.shown}

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
    return pair.download(
        lambda side: partial(figure_for, side.view, added_positions, stack=stack, n=n),
        f"{stack} positions",
        2 * sum(own.table.size for own in found.values()),
    )  # fmt: skip


def _lacks(side: Side) -> str | None:
    if side.view.kind == "checkpoint":
        return None
    return f"Position vectors need a Headlight checkpoint; {side.view.checkpoint} is none."


TWICE = Twice(
    "positions",
    draw_twice,
    page="positions",
    params=(PositionsChoice.length, PositionsChoice.side),
    lacks=_lacks,
)
