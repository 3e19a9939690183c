"""Long work on screen: a bar that appears only when it is needed, and a way to stop.

The bar and its button stand in one place, which the frame draws: a button inside a fragment, or put
elsewhere by one, would wait for the run that it is to end.
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

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

#: Called with (step, most steps) while something is made; `most` 0 means waiting for others.
Report = Callable[[int, int], None]

DECODING = "Decoding: step {step} of at most {most}"
READING = "Reading: layer {step} of {most}"
WORKING = "Working: {seconds:.0f} s so far"

#: What is reported where nobody knows how far it is.
UNKNOWN = (0, -1)

#: Work shorter than this shows nothing, in seconds.
_PATIENCE = 0.4
#: The bar is drawn at most so often, in seconds.
_EVERY = 0.1

_STOPPED = "headlight_stopped"
_WORKING = "headlight_working"
_SLOT = "headlight_progress"


def unreported(step: int, most: int) -> None:
    """No-op progress callback."""


class StoppedError(Exception):
    """Raised in work that nobody waits for any more."""


def place_for_progress() -> None:
    """Draw the place of the bar, invisible while it is empty. For the frame, before any page."""
    with st.container(key="work"):
        st.session_state[_SLOT] = st.empty()
        st.button("Stop", icon=":material/stop:", key="stop_work", on_click=_mark)


def fragment(story: Callable[P, None]) -> Callable[P, None]:
    """A fragment of Streamlit's in which work may be long.

    One that runs again by itself may draw in a place outside only if it did so when the whole page
    ran last. So it draws nothing there, each time.
    """

    @st.fragment
    @functools.wraps(story)
    def run(*args: P.args, **options: P.kwargs) -> None:
        _frames_place()
        story(*args, **options)

    return run


class Progress:
    """Draws how far something is, when called with (step, most steps).

    Drawing is also where Streamlit ends this run once the user asked for something else, the Stop
    button included: the call does not return then.
    """

    def __init__(self, work: Hashable, doing: str = DECODING) -> None:
        """Make one; it draws nothing yet.

        Args:
            work: what is being made; pressing Stop marks it, see `stopped`.
            doing: how far it is in words, with {step}, {most} and {seconds}.
        """
        self._work, self._doing = work, doing
        self._slot: DeltaGenerator | None = None
        self._started = time.monotonic()
        self._drawn = 0.0

    def __call__(self, step: int, most: int) -> None:
        """Say how far it is; `most` 0 means waiting for others, below 0 that nobody knows."""
        now = time.monotonic()
        seconds = now - self._started
        if seconds < _PATIENCE or now - self._drawn < _EVERY:
            return
        self._drawn = now
        st.session_state[_WORKING] = self._work
        if self._slot is None:
            self._slot = _frames_place() or st.empty()  # here it has no button
        if most:
            doing = self._doing if most > 0 else WORKING
            said = doing.format(step=step, most=most, seconds=seconds)
            self._slot.progress(min(1.0, max(0.0, step / most)), said)
        else:
            self._slot.progress(0.0, "Waiting for other work to finish")

    def turn_to(self, work: Hashable, doing: str) -> None:
        """Go on with other work in the same bar."""
        self._work, self._doing = work, doing

    def close(self) -> None:
        """Take the bar away."""
        if self._slot is not None:
            self._slot.empty()


def _frames_place() -> DeltaGenerator | None:
    """The place that the frame drew, emptied; None outside of the frame, and in a fragment where a
    run of the whole page ended before it came there.
    """
    slot: DeltaGenerator | None = st.session_state.get(_SLOT)
    if slot is not None:
        with suppress(StreamlitInvalidLayoutContextError):
            slot.empty()
            return slot
    return None


class Job(Generic[T]):
    """Work in a background thread, while the run that waits for it draws its progress.

    The work calls its job with (step, most steps), as any `Report`.
    """

    def __init__(self, make: Callable[[Job[T]], T]) -> None:
        """Start a job. Args: make: called with the job; it may use a session through `ask` only."""
        self._make = make
        self._left = threading.Event()
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._reached = UNKNOWN
        self._outcome: Callable[[], T]
        threading.Thread(target=self._work, name="headlight-work", daemon=True).start()

    def __call__(self, step: int, most: int) -> None:
        """Say how far the work is. Raises: `StoppedError` if nobody waits for it any more."""
        if self._left.is_set():
            raise StoppedError
        self._reached = step, most

    def ask(self, question: Callable[[], R]) -> R:
        """Have the waiting run answer a question in its session.

        Raises: `StoppedError` if the run leaves meanwhile, also by what `question` raises.
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

    def wait(self, progress: Progress) -> T:
        """Draw progress and answer questions until the job is done; return or raise its outcome."""
        try:
            while True:
                try:
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
        except BaseException as failure:  # noqa: BLE001 - the thread that waits raises it
            self._outcome = functools.partial(_raise, failure)
        finally:
            self._calls.put(None)


def attended(make: Callable[[Job[T]], T], progress: Progress) -> T:
    """Make something in a background job, which draws progress here and can be stopped.

    Args:
        make: called with the job. It may use the caches of the process, but no session. What
            reports often ends soon after the run that waits for it; what does not, ends by itself.

    Returns: what `make` returned.  Raises: what it raised.
    """
    return Job(make).wait(progress)


def _raise(failure: BaseException) -> NoReturn:
    raise failure


def stopped(work: Hashable) -> bool:
    """Whether the user stopped this work and has not asked for it again."""
    return bool(st.session_state.get(_STOPPED) == work)


def resume() -> None:
    """Let stopped work go on."""
    st.session_state.pop(_STOPPED, None)


def _mark() -> None:
    working: Any = st.session_state.get(_WORKING)
    st.session_state[_STOPPED] = working
