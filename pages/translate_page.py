"""Translate: step through decoding and watch where the model looks."""

from __future__ import annotations

import streamlit as st

from transformer.trace.records import Trace
from ui.components.player import PlayerPlace, encode, place_in, taken_in
from ui.components.player.mount import player
from ui.core import url_state
from ui.core.units import units_control
from ui.core.view import View, current_view
from ui.frame.pages import require_frame
from ui.frame.steer_form import draw_steer_form, out_of_date
from ui.frame.steering import begin_with
from ui.translate.downloads import offer
from ui.translate.exhibits import origin_of, why_no_player
from ui.translate.start import Start, remember, telling_step
from ui.translate.words import (
    explain,
    how_decoded,
    said_of_search,
    say_what_is_wrong,
    scored,
)
from ui.work.cache import get_trace, get_translator, trace_id
from ui.work.computed import computed
from ui.work.progress import fragment

require_frame()

_KEY = "player"
_START = "player_start"


@fragment
def story(view: View) -> None:
    """The page. Runs again by itself when the player reports, and never moves a player in use."""
    if out_of_date(view):
        st.rerun()
    trace = get_trace(view)
    sentence, asides = st.columns([5, 4], vertical_alignment="center")
    with sentence.container(key="source"):
        st.text(" ".join(trace.source.split()))
    with asides.container(horizontal=True, horizontal_alignment="right", gap="xsmall"):
        with st.popover("What is this?", type="tertiary"):
            explain()
        if view.kind == "checkpoint":
            with st.popover("Steer", type="tertiary", icon=":material/alt_route:"):
                draw_steer_form(view)
        link = st.popover("Link", type="tertiary", icon=":material/link:")
        download = st.container(width="content")
    with st.container(key="headline" if len(trace.text) <= 120 else "headline_long"):
        st.text(trace.text or "(an empty translation)")
    say_what_is_wrong(trace)
    caption, units = st.columns([5, 1], vertical_alignment="center")
    also = ", or click another candidate." if view.kind == "checkpoint" else "."
    caption.caption(
        "Light is where the decoder looks while it picks the next token. Step through it" + also
    )
    with units:
        words = units_control() == "words"
    draw_player(view, trace, words=words)
    st.caption(
        f"{len(trace.src_tokens)} source and {len(trace.predicted_tokens)} target tokens, "
        f"{scored(trace)} ({how_decoded(view, trace)}). "
        "Attention is not by itself an explanation." + said_of_search(view, trace)
    )
    with download:
        place = PlayerPlace(
            url_state.get(url_state.STEP) or 1,
            url_state.get(url_state.LAYER),
            url_state.get(url_state.HEAD),
        )
        offer(view, trace, place, words=words)
    url_state.write_url()
    link.caption("Opens this view again: sentence, steering, checkpoint, step, layer and head.")
    link.code(url_state.link(), language=None, wrap_lines=True)


def draw_player(view: View, trace: Trace, *, words: bool) -> None:
    """Mount the player; what it reports is kept, and a token taken instead steers."""
    start, name = st.session_state[_START], trace_id(view)
    steerable = view.kind == "checkpoint"
    never: tuple[int, ...] = ()
    if steerable:
        config = get_translator(view).config
        never = (config.pad_id, config.bos_id)

    def follow() -> None:
        reported = place_in(st.session_state.get(_KEY), name)
        if reported is not None:
            remember(reported)

    def take() -> None:
        taken = taken_in(st.session_state.get(_KEY), name, trace, never)
        if taken is not None:
            remember(taken.place)
            begin_with((*trace.predicted_ids[: taken.place.step - 1], taken.token))

    origin = origin_of(view.kind)
    message = computed(
        view, "player", (start, words, view.alpha, never, origin),
        lambda _, trace: encode(
            trace, name, start.place, start.nonce, words=words, alpha=view.alpha, never=never,
            steerable=steerable, origin=origin,
        ),
    )  # fmt: skip
    player(message, key=_KEY, on_view_change=follow, on_steer_change=take)


def settle(view: View, trace: Trace) -> None:
    """Decide where the player opens: where it stood, where a link says, or at a telling step.

    The decision stands until the trace changes, a link arrives or the page is opened again, since
    an unchanged message is not sent twice and leaves a player in use alone.
    """
    name = trace_id(view)
    held = st.session_state.get(_START)
    asked = url_state.arrived(url_state.STEP, url_state.LAYER, url_state.HEAD)
    if held is not None and held.trace == name and not asked and not url_state.entered():
        return
    step = url_state.get(url_state.STEP)
    if step is None or step > len(trace.predicted_tokens):
        step = telling_step(trace, view.examples.find(view.sentence))
    n_layers, n_heads = trace.cross.shape[:2]
    layer, head = url_state.get(url_state.LAYER), url_state.get(url_state.HEAD)
    place = PlayerPlace(
        step=step,
        layer=layer if layer is not None and layer <= n_layers else None,
        head=head if head is not None and head <= n_heads else None,
    )
    st.session_state[_START] = Start(name, place, held.nonce + 1 if held else 0)
    remember(place)


url_state.show(url_state.STEP, url_state.LAYER, url_state.HEAD)
view = current_view()
missing = why_no_player(get_trace(view))
if missing is None:
    settle(view, get_trace(view))
    story(view)
else:
    st.info(missing, icon=":material/translate:")
    st.page_link("pages/attention_page.py", label="Attention", icon=":material/grid_view:")
