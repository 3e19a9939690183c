"""Training time: a bar that sets every page to a training snapshot.

A snapshot is a checkpoint with the name `NAME@UPDATES`; the bar is on screen while one is chosen.
Sentence and steering stay, since all snapshots share a vocabulary.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import streamlit as st

from figures.labels import code, plain, probability
from transformer.checkpoint.reference import at, split_name
from transformer.models.catalogue import Entry
from transformer.trace.records import Trace
from ui.core import url_state
from ui.core.doubts import headline
from ui.core.examples import examples_for, languages_of_training
from ui.core.glossary import linked
from ui.core.languages import name_of
from ui.core.view import CHECKPOINT, Side, View, is_blank
from ui.core.widgets import filled
from ui.frame.steering import follow_target
from ui.work import results
from ui.work.desk import get_trace, prepare

#: Seconds per snapshot while playing.
PACE = 1.4

#: Smallest cosine of related weights; that of independent weights is below 0.01.
RELATED = 0.1

_PLAYING = "headlight_playing_time"
_SINCE = "headlight_playing_since"


def draw_switch(
    entry: Entry, key: str = "open_time", then: Callable[[], None] = lambda: None
) -> None:
    """Draw the button that opens the bar and calls `then`, if the checkpoint has snapshots."""

    def go() -> None:
        _show(entry.name, moments(entry)[0])
        then()

    if entry.history.snapshots and entry.updates is None:
        title = results.once(("time", entry.ref), lambda: _title(entry))
        st.button(
            title + ": watch it learn" * (key != "open_time"), icon=":material/history:",
            type="tertiary", key=key, on_click=go,
            help="Snapshots of its training: press Play, or move the slider.",
        )  # fmt: skip


def _title(entry: Entry) -> str:
    reads, writes = languages_of_training(entry.name, entry.metrics)
    learned = reads if entry.stack and entry.stack.task != "translate" else writes
    language = name_of(learned) if name_of(learned) != learned else "words"
    if examples_for(entry.name, entry.metrics).kind == "letters":
        language = "letters"
    return f"From noise to {language}" if entry.history.began == "" else "From its first steps"


def _show(name: str, moment: int | None) -> None:
    url_state.put(CHECKPOINT, at(name, moment))


def moments(entry: Entry) -> tuple[int, ...]:
    """Return the snapshots' numbers of updates, ascending."""
    return tuple(snapshot.updates for snapshot in entry.history.snapshots)


def draw_bar(view: View) -> None:
    """Draw the bar of a snapshot."""
    entry = view.entry
    name, now, stops = entry.whole, entry.updates, moments(entry)
    blank = 0 if entry.history.began == "" else None

    def show(moment: int | None) -> None:
        st.session_state.pop(_PLAYING, None)
        _show(name, moment)

    with st.container(key="time"):
        row = st.container(horizontal=True, vertical_alignment="center")
        if now == stops[-1]:
            st.session_state.pop(_PLAYING, None)
        playing = bool(st.session_state.get(_PLAYING))
        row.button(
            "Stop" if playing else "Play",
            icon=":material/pause:" if playing else ":material/play_arrow:",
            key="play_time", on_click=st.session_state.pop if playing else _play,
            args=(_PLAYING, None) if playing else (name, stops),
        )  # fmt: skip
        row.select_slider(
            "Trained for", stops, label_visibility="collapsed",
            format_func=lambda moment: "untrained" if moment == blank else f"{moment:,} updates",
            **filled("time_slider", now, show),
        )  # fmt: skip
        if entry.stack is None and view.target is None and not is_blank(view.sentence):
            row.button(
                "Keep this translation", icon=":material/lock:", type="tertiary", key="hold_time",
                on_click=_hold, args=(view,),
                help="Every snapshot reads the translation on screen, so that maps can be "
                "compared row by row.",
            )  # fmt: skip
        row.button(
            "Close", icon=":material/close:", type="tertiary", key="close_time",
            on_click=show, args=(None,), help="Go back to the finished model.",
        )  # fmt: skip
        st.caption(_about(view, now))
        if playing:
            _clock(name, stops)


def others_in_time(entry: Entry) -> tuple[str, ...]:
    """Return the names of the run's other snapshots, latest first, if the bar is open."""
    others = [
        updates for updates in reversed(moments(entry)) if entry.updates not in (None, updates)
    ]
    return tuple(at(entry.whole, updates) for updates in others)


def _about(view: View, now: int | None) -> str:
    """Describe a snapshot: its updates, how well it predicts, and the finished model."""
    entry, history = view.entry, view.entry.history
    here = next(snapshot for snapshot in history.snapshots if snapshot.updates == now)
    when = f"After {now:,}" if now else "Before the first"
    text = f"{when} of {history.snapshots[-1].updates:,} updates"
    if history.began is not None:
        start = f"the weights of {code(history.began)}" if history.began else "random weights"
        text += f": {start}" if now == 0 else f", from {start}"
    text += "."
    if math.isfinite(here.val_nll):
        target = "hidden token" if entry.stack and entry.stack.task == "fill" else "next token"
        text += (
            f" In unseen text, the right {target} gets a probability of "
            f"{probability(-here.val_nll)} (geometric mean; loss {here.val_nll:.2f} nats)."
        )
    text += f"  \n{finished_in_words(entry)}"
    if entry.stack is None and not is_blank(view.sentence):
        (trace,) = prepare(view, [_of_finished(view).request])
        text += f" The finished model writes “{plain(headline(trace))}”" if trace else ""
    return linked(text, "nats")


def finished_in_words(entry: Entry) -> str:
    """Return a sentence on how the finished model relates to the run of its snapshots."""
    cosine = round(entry.history.about.get("cosine", math.nan), 2) + 0.0  # without a sign if zero
    related = "unrelated" if abs(cosine) < RELATED else "related"
    return {
        "end": "This run ends in the finished model.",
        "further": "The finished model was trained further from the end of this run.",
        "other": "The finished model comes from another run: heads with the same number are "
        f"{related} (cosine of their weights {cosine:.2f}).",
        "": "The record does not say how the finished model relates to this run.",
    }[entry.relation]


def finished(side: Side) -> Side | None:
    """Return the finished model's side in training time, otherwise None.

    Default choices are made for it, and stay as the training plays.
    """
    view, alone = _of_finished(side.view), side.view.entry.updates is not None and not side.letter
    return replace(side, view=view, trace=get_trace(view)) if alone else None


def _of_finished(view: View) -> View:
    entry = view.entry
    return replace(view, entry=replace(entry, name=entry.whole, ref=entry.ref.after(None)))


@st.fragment(run_every=PACE)
def _clock(name: str, stops: Sequence[int]) -> None:
    """Go to the next snapshot after `PACE` seconds. The app's own run starts the wait."""
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


def step(name: str, stops: Sequence[int]) -> None:
    """Go to the next snapshot, if there is one."""
    now = split_name(url_state.get(CHECKPOINT))[1]
    following = min(stops.index(now) + 1, len(stops) - 1) if now in stops else len(stops) - 1
    _show(name, stops[following])


def _hold(view: View) -> None:
    """Follow the translation on screen until Undo."""
    trace: Trace | None = results.CACHE.get(view.request)
    if trace is not None and trace.text.strip():
        follow_target(trace.text)


def _play(name: str, stops: Sequence[int]) -> None:
    st.session_state[_PLAYING] = True
    st.session_state.pop(_SINCE, None)
    if url_state.get(CHECKPOINT) == at(name, stops[-1]):  # from the beginning
        _show(name, stops[0])
