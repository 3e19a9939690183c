"""A limit on visitors at once, and places that idle visitors give up to those who wait.

A visitor is an open websocket of Streamlit's. `HEADLIGHT_SESSIONS` sets the limit, 0 for none; a
public server has one of 200. `HEADLIGHT_IDLE_MINUTES` sets after how long without an action a
visitor makes room for one who waits, 0 for never.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ui.core.public import whole_number

VARIABLE = "HEADLIGHT_SESSIONS"
IDLE_VARIABLE = "HEADLIGHT_IDLE_MINUTES"

#: Limit of a public server: a visitor takes about 13 MB, see docs/capacity.md.
_PUBLIC = 200

#: Minutes of a public server: longer than a teacher talks about one picture.
_PUBLIC_IDLE = 30

#: Seconds for which a place that was given up is kept for the visitor who waited, from the page to
#: its websocket over a slow line.
_KEPT = 30.0


@dataclass(eq=False)
class Place:
    """A visitor's place.

    Attributes:
        acted: when the visitor last did something, by the clock of `Visitors`.
        given_up: whether it belongs to somebody else now.
        farewell: tells the visitor so, and ends the connection; set by who holds it.
    """

    acted: float
    given_up: bool = False
    farewell: Callable[[], Coroutine[None, None, None]] | None = None


class Visitors:
    """The visitors of this server. Thread-safe."""

    def __init__(
        self, most: int, idle: float = 0.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Make it empty.

        Args:
            most: limit; 0 for none.
            idle: seconds without an action after which a place may be given up; 0 for never.
            clock: seconds, from any beginning.
        """
        self.most, self.idle = most, idle
        self.turned_away = self.gave_up = 0
        self._clock = clock
        self._places: set[Place] = set()
        self._kept: list[float] = []  # until when, the earliest first
        self._lock = threading.Lock()

    @property
    def now(self) -> int:
        """How many there are."""
        return len(self._places)

    @property
    def full(self) -> bool:
        """Whether there is no place left; asked for a page, not for a place."""
        with self._lock:
            return self._left() < 1

    @contextmanager
    def place(self, returning: bool = False) -> Iterator[Place | None]:
        """Hold a place within, if there is one; yield it.

        Args: returning: whether a visitor comes back whose connection ended. Places that are kept
            are not for them: the one who gave a place up would take it back at once.
        """
        place = None
        with self._lock:
            if self._left() + (not returning and bool(self._kept)) > 0:
                place = Place(self._clock())
                self._places.add(place)
                if not returning:
                    del self._kept[:1]
            else:
                self.turned_away += 1
        try:
            yield place
        finally:
            if place:
                with self._lock:
                    self._places.discard(place)

    def acts(self, place: Place) -> None:
        """Note that a visitor did something."""
        place.acted = self._clock()

    def make_room(self) -> Place | None:
        """Take the place of the visitor who has been idle longest, if that is long enough.

        It is kept for a while for the next visitor with a new page.

        Returns: the place, None if nobody has been idle for long.
        """
        with self._lock:
            idlest = min(self._places, key=lambda each: each.acted, default=None)
            now = self._clock()
            if not self.idle or idlest is None or now - idlest.acted < self.idle:
                return None
            idlest.given_up = True
            self._places.discard(idlest)
            self._kept.append(now + _KEPT)
            self.gave_up += 1
        return idlest

    def _left(self) -> int:
        """Return how many places are left. The lock is held."""
        now = self._clock()
        self._kept = [until for until in self._kept if until > now]
        return self.most - len(self._places) - len(self._kept) if self.most else 1


def most_visitors() -> int:
    """Return the limit of visitors at once, 0 for none.

    Raises: `ValueError`, one line, if the variable holds no whole number.
    """
    return whole_number(VARIABLE, 0, _PUBLIC)


def idle_minutes() -> int:
    """Return after how many minutes a place may be given up, 0 for never.

    Raises: `ValueError`, one line, if the variable holds no whole number.
    """
    return whole_number(IDLE_VARIABLE, 0, _PUBLIC_IDLE)


#: Of this server; its limits are read when it starts.
VISITORS = Visitors(0)
