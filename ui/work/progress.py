"""Progress of long work: a bar that appears only when needed, and a Stop button.

The frame draws both: a button in a fragment would wait for the run that it should end.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.errors import StreamlitInvalidLayoutContextError

from figures.labels import count
from transformer.types import Report
from transformer.worker.job import Job
from ui.core import url_state
from ui.core.runs import in_turn, lateness, paused
from ui.work.budget import budget_of_visit

P = ParamSpec("P")
T = TypeVar("T")

DECODING = "Decoding: step {step} of at most {most}"
READING = "Reading: layer {step} of {most}"
MEASURING = "Measuring: {step} of {most}"
LOADING = "Loading the model: {seconds:.0f} s so far"
WORKING = "Working: {seconds:.0f} s so far"
WAITING = "Waiting for other work to finish"

#: Seconds before the bar appears.
_PATIENCE = 0.4
#: Seconds between two drawings of the bar, while it moves and while it does not: each drawing is a
#: message, and a full classroom would send hundreds a second.
_MOVING, _STANDING = 0.25, 1.0

_STOPPED = "headlight_stopped"
_WORKING = "headlight_working"
_SLOT = "headlight_progress"
_LEFT = "headlight_left_stopped"


#: Progress callback for work of this thread that is given none.
REPORT: ContextVar[Report] = ContextVar("report", default=lambda step, most: None)


#: Seconds by which work of this thread comes late among others', see `ui.core.runs.lateness`.
LATE: ContextVar[float] = ContextVar("late", default=0.0)


def unreported(step: int, most: int) -> None:
    """Report to `REPORT`."""
    REPORT.get()(step, most)


def place_for_progress() -> None:
    """Draw the bar's container, invisible while empty; called by the frame before any page."""
    _go_on_elsewhere()
    with st.container(key="work"):
        st.session_state[_SLOT] = st.empty()
        st.button("Stop", icon=":material/stop:", key="stop_work", on_click=_mark)


def fragment(draw: Callable[P, None]) -> Callable[P, None]:
    """Streamlit's `fragment` for functions whose work may be long.

    A fragment that reruns by itself may draw in an outside container only if it did so when the
    whole page ran last. So it empties the frame's place each time.
    """

    @st.fragment
    @functools.wraps(draw)
    def run(*args: P.args, **options: P.kwargs) -> None:
        with in_turn():
            _go_on_elsewhere()
            _frames_place()
            draw(*args, **options)

    return run


class Progress:
    """Progress bar, called with (step, maximum).

    Each call is also where Streamlit ends this run when the user asks for something else, such as
    by the Stop button: the call does not return then.
    """

    def __init__(self, work: Hashable, doing: str = DECODING) -> None:
        """Create a bar without drawing it.

        Args:
            work: key of the work; pressing Stop marks it, see `stopped`.
            doing: text of the bar, with {step}, {most} and {seconds}.
        """
        self._work, self._doing = work, doing
        self._slot: DeltaGenerator | None = None
        self._started = time.monotonic()
        self._drawn = 0.0
        self._shown: tuple[int, int] | None = None

    def __call__(self, step: int, most: int) -> None:
        """Report progress; see `Report`."""
        now = time.monotonic()
        seconds = now - self._started
        if seconds < _PATIENCE:
            return
        st.session_state[_WORKING] = self._work  # touching it is what may end the run
        if now - self._drawn < (_STANDING if self._shown == (step, most) else _MOVING):
            return
        self._drawn, self._shown = now, (step, most)
        if self._slot is None:
            self._slot = _frames_place() or st.empty()  # here it has no button
        if most:
            doing = self._doing if most > 0 else WORKING
            said = doing.format(step=step, most=most, seconds=seconds)
            self._slot.progress(min(1.0, max(0.0, step / most)), said)
        else:
            first = f"; {count(step, 'other')} first" if step else ""
            self._slot.progress(0.0, WAITING + first)

    def turn_to(self, work: Hashable, doing: str) -> None:
        """Continue with other work in the same bar."""
        self._work, self._doing = work, doing

    def close(self) -> None:
        """Remove the bar."""
        if self._slot is not None:
            self._slot.empty()


def _frames_place() -> DeltaGenerator | None:
    """Empty and return the frame's place; None outside the frame, and in a fragment that the last
    run of the whole page did not reach.
    """
    slot: DeltaGenerator | None = st.session_state.get(_SLOT)
    if slot is not None:
        with suppress(StreamlitInvalidLayoutContextError):
            slot.empty()
            return slot
    return None


def attended(make: Callable[[Report], T], progress: Progress) -> T:
    """Call `make` in a background job, drawing its progress; return or raise its outcome.

    Args:
        make: called with a progress callback. It may use the caches of the process, but no session.
            It ends at its next report once this run has ended or the session's budget is used up.
    """
    budget = budget_of_visit()
    budget.check()
    late = lateness()

    def work(job: Job[T]) -> T:
        LATE.set(late)
        with budget.metered(job) as report:
            return make(report)

    job: Job[T] = Job()
    job.start(work)
    try:
        while True:
            with paused():
                if job.ended(_MOVING):
                    return job.future.result()
            progress(*job.progress)
    finally:
        job.stop()
        progress.close()


def stopped(work: Hashable) -> bool:
    """Return whether the user stopped this work and has not resumed it."""
    return bool(st.session_state.get(_STOPPED) == work)


def resume() -> None:
    """Resume stopped work."""
    st.session_state.pop(_STOPPED, None)


def leave_stopped() -> None:
    """Note the settings with which a run ends at stopped work; others resume it."""
    st.session_state[_LEFT] = url_state.everything()


def _go_on_elsewhere() -> None:
    """Resume stopped work if something else has been asked for since."""
    if st.session_state.get(_LEFT, now := url_state.everything()) != now:
        resume()


def _mark() -> None:
    working: Any = st.session_state.get(_WORKING)
    st.session_state[_STOPPED] = working
    st.session_state.pop(_LEFT, None)
