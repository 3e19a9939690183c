"""Training time: a bar that sets every page to a snapshot of the model's training.

The view holds a snapshot like any other checkpoint, under the name `NAME@UPDATES`. Sentence and
steering stay, since all snapshots share one vocabulary.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import streamlit as st

from figures.labels import probability
from transformer.catalogue import Entry
from transformer.checkpoint.reference import at, split_name
from transformer.checkpoint.snapshots import Snapshot
from transformer.trace.records import Trace
from ui.core import url_state
from ui.core.glossary import linked
from ui.core.url_state import Param
from ui.core.view import CHECKPOINT, View, is_blank
from ui.core.widgets import fill
from ui.frame.steering import follow_target
from ui.work import results

#: True while the bar is on screen.
TIME: Param[bool] = url_state.switch("time")

#: Seconds that playing stays at each moment.
PACE = 1.4

#: Stands for the finished checkpoint among the updates.
FINISHED = None

_PLAYING = "headlight_playing_time"
_SINCE = "headlight_playing_since"

Moment = int | None


def draw_switch(entry: Entry) -> None:
    """Draw the button that opens the bar, if the checkpoint has snapshots."""
    url_state.show(TIME)
    if entry.history.snapshots and not is_open(entry):
        st.button(
            "Through its training", icon=":material/history:", type="tertiary", key="open_time",
            on_click=url_state.put, args=(TIME, True),
            help="Show earlier snapshots of this model's training.",
        )  # fmt: skip


def is_open(entry: Entry) -> bool:
    """Return True if the bar is on screen: it was opened, or a link leads to a moment."""
    if not entry.history.snapshots:
        return False
    return url_state.get(TIME) or entry.updates is not None


def moments(entry: Entry) -> tuple[Moment, ...]:
    """Return the updates of the moments to choose from; the last is None, the finished model."""
    snapshots = entry.history.snapshots
    if entry.history.continues:
        snapshots = snapshots[:-1]
    return (*(each.updates for each in snapshots), FINISHED)


def draw_bar(view: View) -> None:
    """Draw the bar above the page, if it is open."""
    entry = view.entry
    if not is_open(entry):
        return
    url_state.show(TIME)
    name, now, stops = entry.whole, entry.updates, moments(entry)
    if now not in stops:  # the last snapshot, which is the finished model
        now = FINISHED

    def show(moment: Moment) -> None:
        st.session_state.pop(_PLAYING, None)
        url_state.put(CHECKPOINT, at(name, moment))

    def close() -> None:
        show(FINISHED)
        url_state.put(TIME, False)

    with st.container(key="time"):
        row = st.container(horizontal=True, vertical_alignment="center")
        playing = _playing(stops, now)
        row.button(
            "Stop" if playing else "Play",
            icon=":material/pause:" if playing else ":material/play_arrow:",
            key="play_time", on_click=st.session_state.pop if playing else _play,
            args=(_PLAYING, None) if playing else (name, stops),
        )  # fmt: skip
        fill("time_slider", now)
        row.select_slider(
            "Trained for", stops, key="time_slider", format_func=in_updates,
            on_change=lambda: show(st.session_state["time_slider"]), label_visibility="collapsed",
        )  # fmt: skip
        if entry.stack is None and view.target is None and not is_blank(view.sentence):
            row.button(
                "Hold translation", icon=":material/lock:", type="tertiary", key="hold_time",
                on_click=_hold, args=(view,),
                help="Feed the translation on screen to every snapshot, so that maps can be "
                "compared row by row.",
            )  # fmt: skip
        row.button(
            "Finished model", icon=":material/close:", type="tertiary", key="close_time",
            on_click=close, help="Close this bar.",
        )  # fmt: skip
        st.caption(_about(entry, now))
        if playing:
            _clock(name, stops)


def others_in_time(entry: Entry) -> tuple[str, ...]:
    """Return the names of this checkpoint's other moments, the latest first, if the bar is open."""
    if not is_open(entry):
        return ()
    return tuple(
        at(entry.whole, each) for each in reversed(moments(entry)) if each != entry.updates
    )


def in_updates(moment: Moment) -> str:
    """Return a moment in words."""
    if moment is FINISHED:
        return "finished"
    return "untrained" if moment == 0 else f"{moment:,} updates"


def _about(entry: Entry, now: Moment) -> str:
    """Return a line on the moment: its updates, and how well it predicts."""
    snapshots = entry.history.snapshots
    here = next((each for each in snapshots if each.updates == now), None)
    if here is None and entry.history.continues:
        here = snapshots[-1]
    text = _moment_in_words(snapshots, now, entry.history.continues)
    if here is not None and math.isfinite(here.val_nll):
        asked = "hidden token" if entry.stack and entry.stack.task == "fill" else "next token"
        text += (
            f" On validation text it gives the right {asked} a probability of "
            f"{probability(-here.val_nll)} (geometric mean; loss {here.val_nll:.2f} nats)."
        )
    return linked(text, "nats")


def _moment_in_words(snapshots: Sequence[Snapshot], now: Moment, continues: bool) -> str:
    last = snapshots[-1].updates
    if now is FINISHED:
        if continues:
            return f"The finished model, after {last:,} updates."
        return (
            "The finished model. Trained further in separate runs; earlier snapshots come from one "
            f"run of {last:,} updates."
        )
    if now == 0:
        return "Before the first update: all weights are random."
    return f"After {now:,} of {last:,} updates."


def _playing(stops: Sequence[Moment], now: Moment) -> bool:
    """Return True while the moments are played; the last one ends it."""
    if now == stops[-1]:
        st.session_state.pop(_PLAYING, None)
    return bool(st.session_state.get(_PLAYING))


@st.fragment(run_every=PACE)
def _clock(name: str, stops: Sequence[Moment]) -> None:
    """Go to the next moment when the present one has been on screen for `PACE` seconds.

    The app's own run draws this too, which begins the wait.
    """
    since = st.session_state.get(_SINCE)
    current = url_state.get(CHECKPOINT)
    if since is None or since[0] != current:
        st.session_state[_SINCE] = current, time.monotonic()
        return
    if time.monotonic() - since[1] < PACE / 2:
        return
    if st.session_state.get(_PLAYING):
        step(name, stops)
        st.rerun()


def step(name: str, stops: Sequence[Moment]) -> None:
    """Go from the current moment to the next; the last one stays."""
    now = _now(name)
    following = min(stops.index(now) + 1, len(stops) - 1) if now in stops else len(stops) - 1
    url_state.put(CHECKPOINT, at(name, stops[following]))


def _now(name: str) -> Moment:
    current = url_state.get(CHECKPOINT)
    return FINISHED if current == name else split_name(current)[1]


def _hold(view: View) -> None:
    """Follow the translation on screen from now on, which Steer's Undo ends."""
    found: Trace | None = results.CACHE.get(view.request)
    if found is not None and found.text.strip():
        follow_target(found.text)


def _play(name: str, stops: Sequence[Moment]) -> None:
    st.session_state[_PLAYING] = True
    st.session_state.pop(_SINCE, None)
    if _now(name) is FINISHED:  # from the beginning
        url_state.put(CHECKPOINT, at(name, stops[0]))
