"""Long work on screen: a bar that appears only when it is needed, and a way to stop."""

from __future__ import annotations

import time
from collections.abc import Hashable

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

#: Work shorter than this shows nothing, in seconds.
_PATIENCE = 0.4
_STOPPED = "headlight_stopped"


class Progress:
    """Called with (step, most steps) while something is made.

    Drawing the bar is also where Streamlit ends this run once the user asked for something else,
    the Stop button included: the call does not return then.
    """

    def __init__(
        self, work: Hashable, doing: str = "Decoding: step {step} of at most {most}"
    ) -> None:
        """Make one; it draws nothing yet.

        Args:
            work: what is being made; pressing Stop marks it, see `stopped`.
            doing: how far it is in words, with {step} and {most}.
        """
        self._work, self._doing = work, doing
        self._slot = st.empty()
        self._bar: DeltaGenerator | None = None
        self._started = time.monotonic()
        self._drawn = 0.0

    def __call__(self, step: int, most: int) -> None:
        """Say how far it is; `most` 0 means waiting for others."""
        now = time.monotonic()
        if now - self._started < _PATIENCE or now - self._drawn < 0.1:
            return
        self._drawn = now
        if self._bar is None:
            # One run may make several things, one after the other.
            name = f"{hash(self._work) & 0xFFFFFFFF:x}"
            with self._slot.container(key=f"progress_{name}"):
                self._bar = st.progress(0.0)
                st.button(
                    "Stop", icon=":material/stop:", key=f"stop_{name}", on_click=_mark,
                    args=(self._work,),
                )  # fmt: skip
        if most:
            self._bar.progress(min(1.0, step / most), self._doing.format(step=step, most=most))
        else:
            self._bar.progress(0.0, "Waiting for another sentence to finish")

    def close(self) -> None:
        """Take the bar away."""
        self._slot.empty()


def stopped(work: Hashable) -> bool:
    """Whether the user stopped this work and has not asked for it again."""
    return bool(st.session_state.get(_STOPPED) == work)


def resume() -> None:
    """Let stopped work go on."""
    st.session_state.pop(_STOPPED, None)


def _mark(work: Hashable) -> None:
    st.session_state[_STOPPED] = work
