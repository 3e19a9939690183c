"""Progress of long work: a bar that appears only when needed, and a button to stop.

Both are drawn by the frame: a button inside a fragment, or drawn elsewhere by one, would
wait for the run that it should end.
"""

from __future__ import annotations

import functools
import queue
import threading
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any, Generic, NoReturn, ParamSpec, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.errors import StreamlitInvalidLayoutContextError

from figures.numbers import count
from ui.core.runs import in_turn, paused
from ui.work.budget import Budget, budget_of_visit

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

#: Progress callback, called with (step, maximum). A maximum of 0 means waiting for other work, of
#: which `step` pieces go first, as far as known; a negative one that it is unknown.
Report = Callable[[int, int], None]

DECODING = "Decoding: step {step} of at most {most}"
READING = "Reading: layer {step} of {most}"
WORKING = "Working: {seconds:.0f} s so far"
WAITING = "Waiting for other work to finish"

#: Reported when progress is unknown.
UNKNOWN = (0, -1)

#: Seconds before the bar appears.
_PATIENCE = 0.4
#: Seconds between looks at the work, and between drawings of the bar while it moves, and while it
#: stands: each drawing is a message, of which a full classroom would send hundreds a second.
_EVERY, _MOVING, _STANDING = 0.1, 0.25, 1.0

_STOPPED = "headlight_stopped"
_WORKING = "headlight_working"
_SLOT = "headlight_progress"


def unreported(step: int, most: int) -> None:
    """No-op progress callback."""


class StoppedError(Exception):
    """Raised in background work whose caller has gone."""


def place_for_progress() -> None:
    """Draw the bar's container, invisible while empty; called by the frame before any page."""
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


class Job(Generic[T]):
    """Work in a background thread, with a run that waits for it and draws its progress.

    The work calls its job as any `Report`.
    """

    def __init__(self, make: Callable[[Job[T]], T], budget: Budget) -> None:
        """Start a job; `make` is called with it and may use the session through `ask` only.

        Args: budget: of the session, charged for the time in which the work computes.
        """
        self._make, self.budget = make, budget
        self._computing_since: float | None = time.monotonic()
        self._left = threading.Event()
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._reached = UNKNOWN
        self._outcome: Callable[[], T]
        threading.Thread(target=self._work, name="headlight-work", daemon=True).start()

    def __call__(self, step: int, most: int) -> None:
        """Report progress.

        Raises: `StoppedError` if the waiting run has gone, `OverBudgetError` if the session has
            used its budget.
        """
        if self._left.is_set():
            raise StoppedError
        self._reached = step, most
        self._charge(computes=most != 0)
        self.budget.check()

    def ask(self, question: Callable[[], R]) -> R:
        """Have the waiting run call a function in its session; return the result.

        Raises: `StoppedError` if the run has gone, or if `question` raises there.
        """
        answers: list[R] = []
        answered = threading.Event()

        def answer() -> None:
            answers.append(question())
            answered.set()

        self._calls.put(answer)
        while not answered.wait(_EVERY):
            self(*self._reached)
        return answers[0]

    def _charge(self, computes: bool) -> None:
        now = time.monotonic()
        if self._computing_since is not None:
            self.budget.charge(seconds=now - self._computing_since)
        self._computing_since = now if computes else None

    def wait(self, progress: Progress) -> T:
        """Draw progress and answer `ask` until the job is done; return or raise its outcome."""
        try:
            while True:
                try:
                    with paused():
                        call = self._calls.get(timeout=_EVERY)
                except queue.Empty:
                    progress(*self._reached)
                    continue
                if call is None:
                    break
                call()
        finally:
            self._left.set()
            progress.close()
        return self._outcome()

    def _work(self) -> None:
        try:
            result = self._make(self)
            self._outcome = lambda: result
        except BaseException as failure:  # noqa: BLE001 - raised in the waiting thread
            self._outcome = functools.partial(_raise, failure)
        finally:
            self._charge(computes=False)
            self._calls.put(None)


def attended(make: Callable[[Job[T]], T], progress: Progress) -> T:
    """Call `make` in a background job, drawing its progress; return or raise its outcome.

    Args:
        make: called with the job. It may use the caches of the process, but no session. It ends at
            its next report once the waiting run has gone or the session's budget is used up.
    """
    budget = budget_of_visit()
    budget.check()
    return Job(make, budget).wait(progress)


def _raise(failure: BaseException) -> NoReturn:
    raise failure


def stopped(work: Hashable) -> bool:
    """Whether the user stopped this work and has not resumed it."""
    return bool(st.session_state.get(_STOPPED) == work)


def resume() -> None:
    """Resume stopped work."""
    st.session_state.pop(_STOPPED, None)


def _mark() -> None:
    working: Any = st.session_state.get(_WORKING)
    st.session_state[_STOPPED] = working
