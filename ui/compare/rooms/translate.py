"""Decoding step by step, side by side: two players that move together."""

from __future__ import annotations

from functools import partial

import streamlit as st

from figures.exhibit import Exhibit
from ui.compare.sides import CompareRoom, Download, Pair
from ui.components.player import PlayerPlace
from ui.core.side import Side
from ui.core.units import UNITS, units_control
from ui.core.url_state import HEAD, LAYER, SHIFTED, STEP
from ui.core.view import View
from ui.export.download import source_of, trace_for
from ui.translate.exhibits import player_exhibit, why_no_player
from ui.translate.player import draw_player, ensure_step, open_player, place_now, within
from ui.translate.words import decoded_text


def _draw(pair: Pair) -> Download | None:
    """Both players. The one with more steps has the buttons, so that every step can be reached."""
    with pair.controls:
        words = units_control() == "words"
    leader = max(pair.shown, key=_n_steps, default=None)
    if leader is not None:
        ensure_step(pair.shown[0], _n_steps(leader))

    def draw(side: Side) -> None:
        st.caption(f"{side.lead}{decoded_text(side.view, side.trace)}")
        open_player(side, anew=pair.anew)
        draw_player(side, words=words, group="compare", follows=side is not leader)

    pair.rows(draw)
    pair.links()
    place = place_now()
    return pair.download(lambda side: partial(_exhibit, side.view, place, words), "Step by step")


def _n_steps(side: Side) -> int:
    return len(side.trace.predicted_tokens)


def _exhibit(view: View, place: PlayerPlace, words: bool) -> Exhibit:
    trace = trace_for(view)
    return player_exhibit(trace, within(place, trace), source_of(view), words=words)


ROOM = CompareRoom(
    "steps", _draw, page="translate", params=(STEP, LAYER, HEAD, SHIFTED, UNITS),
    lacks=lambda setup, side: why_no_player(side.trace),
)  # fmt: skip
