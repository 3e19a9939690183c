"""The player of one side: where it opens, where it stands, and what it reports."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import streamlit as st

from transformer.trace.records import Trace
from ui.components.player import PlayerPlace, encode, place_in, taken_in
from ui.components.player.mount import player
from ui.core import url_state
from ui.core.examples import Example
from ui.core.side import Side
from ui.core.view import View
from ui.frame.steering import begin_with
from ui.translate.exhibits import origin_of
from ui.work.cache import Computation, computed


@dataclass(frozen=True)
class Start:
    """Where the player was opened: in which trace, at which place, and how often before."""

    trace: str
    place: PlayerPlace
    nonce: int


def place_now() -> PlayerPlace:
    """Where the store says that a player stands."""
    return PlayerPlace(
        url_state.get(url_state.STEP) or 1,
        url_state.get(url_state.LAYER),
        url_state.get(url_state.HEAD),
    )


def remember(place: PlayerPlace) -> None:
    """Keep where the player stands, for the URL and for the way back from another page."""
    url_state.put(url_state.STEP, place.step)
    url_state.put(url_state.LAYER, place.layer)
    url_state.put(url_state.HEAD, place.head)


def within(place: PlayerPlace, trace: Trace) -> PlayerPlace:
    """The place as far as this model has its layer and head; else the mean."""
    n_layers, n_heads = trace.cross.shape[:2]
    return PlayerPlace(
        place.step,
        place.layer if place.layer is not None and place.layer <= n_layers else None,
        place.head if place.head is not None and place.head <= n_heads else None,
    )


def settle_step(side: Side, n_steps: int) -> None:
    """See that the store has a step from 1 to `n_steps`."""
    step = url_state.get(url_state.STEP)
    if step is None or step > n_steps:
        example = side.view.examples.find(side.view.sentence)
        url_state.put(url_state.STEP, telling_step(side.trace, example))


def is_open(side: Side) -> bool:
    """Whether the side's player was opened in this trace before."""
    held: Start | None = st.session_state.get(side.key("player_start"))
    return held is not None and held.trace == side.view.request.name


def open_player(side: Side, *, anew: bool = False) -> Start:
    """Where the player opens: where the store says.

    That stands until the trace changes or the player is opened anew: an unchanged message is not
    sent twice, and leaves a player in use alone.
    """
    key = side.key("player_start")
    held: Start | None = st.session_state.get(key)
    if held is None or anew or not is_open(side):
        held = Start(side.view.request.name, place_now(), held.nonce + 1 if held else 0)
        st.session_state[key] = held
    return held


def player_message(
    side: Side, *, words: bool, steerable: bool = False, group: str = "", follows: bool = False
) -> Computation[bytes]:
    """What the player is sent; see `draw_player`."""
    start, alpha, origin = open_player(side), side.view.alpha, origin_of(side.view.kind)
    never = _never_taken(side.view, steerable)
    return Computation(
        "player", (start, words, alpha, never, origin, group, follows),
        lambda _, trace: encode(
            trace, start.trace, start.place, start.nonce, words=words, alpha=alpha,
            never=never, steerable=steerable, origin=origin, group=group, follows=follows,
        ),
    )  # fmt: skip


def _never_taken(view: View, steerable: bool) -> tuple[int, ...]:
    """Ids of the tokens that cannot be steered to."""
    config = view.entry.config
    return (config.pad_id, config.bos_id) if steerable and config is not None else ()


def draw_player(
    side: Side, *, words: bool, steerable: bool = False, group: str = "", follows: bool = False
) -> None:
    """Mount the player; what it reports is kept, and a token taken instead steers.

    Args:
        words: whether columns are whole words.
        steerable: whether another token can be taken.
        group, follows: see `ui.components.player.encode`.
    """
    start, key, never = open_player(side), side.key("player"), _never_taken(side.view, steerable)
    message = computed(
        side.view,
        *player_message(side, words=words, steerable=steerable, group=group, follows=follows),
    )

    def follow() -> None:
        reported = place_in(st.session_state.get(key), start.trace)
        if reported is not None:
            remember(reported)

    def take() -> None:
        trace = side.trace
        taken = taken_in(st.session_state.get(key), start.trace, trace, never)
        if taken is not None:
            remember(taken.place)
            begin_with((*trace.predicted_ids[: taken.place.step - 1], taken.token))

    # `take` holds the trace, so it goes only where somebody can take a token.
    player(
        message, key=key, on_view_change=follow, on_steer_change=take if steerable else lambda: None
    )


def telling_step(trace: Trace, example: Example | None) -> int:
    """The step, from 1, that looks most at the word an example is about; the first without one."""
    if example is None or not example.watch:
        return 1
    watched = [
        position
        for position, token in enumerate(trace.src_tokens)
        if token.lstrip("▁").lower() == example.watch
    ]
    if not watched:
        return 1
    looks = trace.cross.mean(axis=(0, 1))[:, watched].sum(axis=1)
    return int(np.argmax(looks)) + 1
