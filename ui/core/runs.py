"""Runs of the app take turns.

Python runs one thread at a time and switches between computing threads every few milliseconds. A
run passes on the interpreter lock with each of its hundred messages and then waits for all other
runs, so a run of 20 ms would take a second in a crowd. One after the other, each ends soon. A run
that waits, for a translation say, lets others go on. Most runs redraw what is on screen; one that
opens a page or draws another translation takes longer and falls back behind them. An address that
asks for many runs at once, by one socket or by hundreds, falls back behind others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from transformer.worker.scheduler import Scheduler, Turn

#: Seconds after which the next run starts beside this one: it computes for long, or waits for
#: something that does not let others go on.
_LONG = 0.3

#: Seconds by which a run with much to draw falls back.
_BEHIND = 3.0

#: Seconds by which an address's next run comes late after each, and the most after all.
_SHARE, _LATEST = 0.2, 30.0

#: Times from which the next run of each address is not late.
_taken: dict[str | None, float] = {}

#: Bytes of widgets of no page that a session keeps: more than a browser brings after a reload.
_MOST_UNKNOWN = 300_000

RUNS = Scheduler(_LONG)

_here, _lock = threading.local(), threading.Lock()


@contextmanager
def in_turn() -> Iterator[None]:
    """Run the app within, in this thread's turn; no effect inside a turn."""
    if _turn() is not None:
        yield
        return
    _drop_unknown_widgets()
    behind, _here.behind = getattr(_here, "behind", 0.0), 0.0
    with RUNS.turn(behind=behind, late=_lateness()) as turn:
        _here.turn = turn
        try:
            yield
        finally:
            _here.turn = None


def _lateness() -> float:
    """Return the seconds by which the next run of this visitor's address comes late."""
    now, address = time.monotonic(), st.context.ip_address
    with _lock:
        for each in [each for each, until in _taken.items() if until <= now]:
            del _taken[each]
        late = min(_taken.get(address, now) - now, _LATEST)
        _taken[address] = now + late + _SHARE
    return late


def offer_turn() -> None:
    """Yield to runs of higher priority; called between the sections of a page."""
    if (turn := _turn()) is not None:
        turn.offer()


def fall_back() -> None:
    """Yield to runs of the next seconds: this one has much to draw.

    In a widget's callback it holds for the run that follows on the same thread.
    """
    if (turn := _turn()) is None:
        _here.behind = _BEHIND
    else:
        turn.fall_back(_BEHIND)
        turn.offer()


@contextmanager
def paused() -> Iterator[None]:
    """Release the turn while this run waits for something within."""
    turn = _turn()
    if turn is None:
        yield
        return
    with turn.paused():
        yield
        turn.fall_back(_BEHIND)


def _drop_unknown_widgets() -> None:
    """Drop widgets that a browser made up, which Streamlit keeps until a run reaches its end."""
    if (context := get_script_run_ctx(suppress_warning=True)) is not None:
        session = context.session_state
        with session._lock:
            new = session._state._new_widget_state
            unknown = new.states.keys() - new.widget_metadata.keys()
            size = sum(100 + new.states[name].value.ByteSize() for name in unknown)
            for name in unknown if size > _MOST_UNKNOWN else ():
                del new.states[name]


def _turn() -> Turn | None:
    return getattr(_here, "turn", None)
