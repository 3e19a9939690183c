"""Decoding step by step, side by side: two players that move together."""

from __future__ import annotations

from functools import partial

import streamlit as st

from figures.exhibit import Exhibit
from transformer.trace.records import Trace
from ui.compare.choice import Setup
from ui.compare.sides import LETTERS, Bar, link_page, offer_both, sides_of, view_of
from ui.components.player import PlayerPlace, encode, place_in
from ui.components.player.mount import player
from ui.core import url_state
from ui.core.units import units_control
from ui.core.view import View
from ui.export.download import source_of, trace_for
from ui.translate.exhibits import origin_of, player_exhibit, why_no_player
from ui.translate.start import Start, remember, telling_step
from ui.translate.words import how_decoded, scored
from ui.work.cache import trace_id

#: What the two call each other in the browser.
_GROUP = "compare"


def draw_steps(setup: Setup, left: Trace, right: Trace, bar: Bar) -> None:
    """Both players. The one with more steps has the buttons, so that every step can be reached."""
    traces = left, right
    with bar.controls:
        words = units_control() == "words"
    sides = sides_of(setup, "translate", [why_no_player(each) for each in traces])
    lengths = {side: len(traces[side].predicted_tokens) for side in sides.shown}
    leader = max(lengths, key=lambda side: lengths[side], default=0)
    if sides.shown:
        _settle(setup, traces[sides.shown[0]], lengths[leader])

    def draw(side: int) -> None:
        _draw_player(setup, side, traces[side], bar.anew, words=words, follows=side != leader)

    sides.in_row(draw, first=True)
    with bar.aside:
        where = (
            url_state.get(url_state.STEP) or 1,
            url_state.get(url_state.LAYER),
            url_state.get(url_state.HEAD),
        )
        offer_both(setup, "Step by step", sides.shown, partial(_exhibit, where, words))


def _draw_player(
    setup: Setup, side: int, trace: Trace, anew: bool, *, words: bool, follows: bool
) -> None:
    view, key = view_of(setup, side), f"compare_player_{side}"
    name = trace_id(view)
    start = _start_of(key, name, anew)

    def follow() -> None:
        reported = place_in(st.session_state.get(key), name)
        if reported is not None:
            remember(reported)

    st.caption(f"**{LETTERS[side]}** · {how_decoded(view, trace)}, {scored(trace)}")
    message = encode(
        trace, name, start.place, start.nonce, words=words, alpha=view.alpha, steerable=False,
        origin=origin_of(view.kind), group=_GROUP, follows=follows,
    )  # fmt: skip
    player(message, key=key, on_view_change=follow, on_steer_change=lambda: None)
    link_page(setup, side, "translate")


def _settle(setup: Setup, trace: Trace, longest: int) -> None:
    """See that there is a step to stand at, the same for both."""
    step = url_state.get(url_state.STEP)
    if step is None or step > longest:
        url_state.put(
            url_state.STEP, telling_step(trace, setup.left.examples.find(setup.left.sentence))
        )


def _start_of(key: str, name: str, anew: bool) -> Start:
    """Where a player was opened. It stands until its trace changes or the view is opened anew: an
    unchanged message leaves a player in use alone.
    """
    held: Start | None = st.session_state.get(f"{key}_start")
    if held is None or held.trace != name or anew:
        place = PlayerPlace(
            url_state.get(url_state.STEP) or 1,
            url_state.get(url_state.LAYER),
            url_state.get(url_state.HEAD),
        )
        held = Start(name, place, held.nonce + 1 if held else 0)
        st.session_state[f"{key}_start"] = held
    return held


def _exhibit(
    where: tuple[int, int | None, int | None], words: bool, view: View, side: int
) -> Exhibit:
    """One side as a figure, at the place that both share as far as this model has it."""
    step, layer, head = where
    trace = trace_for(view)
    shape = trace.cross.shape
    place = PlayerPlace(
        step,
        layer if layer is not None and layer <= shape[0] else None,
        head if head is not None and head <= shape[1] else None,
    )
    return player_exhibit(trace, place, source_of(view), words=words)
