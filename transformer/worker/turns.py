"""Whose work goes on: short work first, a step at a time.

Nobody knows beforehand how long a sentence takes. Work is done in the order of arrival, but the
longer it computes, the further it falls back behind what came later. So a short sentence waits for
a step of a long one, not for its end, long ones take turns, and none waits forever.
"""

from __future__ import annotations

import math
import threading
import time
from bisect import insort
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter

#: Seconds of a processor that work may take in its place, as a sentence of 20 tokens does; each
#: second more puts it behind what comes up to `_BEHIND` seconds later.
_SHORT, _BEHIND = 0.2, 30.0

#: Seconds after which waiting work looks again whether it should still wait.
_EVERY = 0.2

#: Called while work waits, with the number of works that go before it; may raise to leave.
Waiting = Callable[[int], None]


class Turns:
    """Lets some pieces of work compute at once, and the others wait. Thread-safe."""

    def __init__(self, places: int, patience: float = math.inf) -> None:
        """Create turns.

        Args:
            places: number of pieces of work that compute at once.
            patience: seconds after which a place is taken from work that keeps it, if others wait.
                It goes on beside them then: perhaps it only waits for something itself.
        """
        self._places, self._patience = places, patience
        self._queue: list[Turn] = []
        self._holders: dict[Turn, float] = {}
        self._lock = threading.Lock()

    @property
    def waiting(self) -> int:
        """Pieces of work in the queue."""
        return len(self._queue)

    @contextmanager
    def taken(self, waiting: Waiting, behind: float = 0.0) -> Iterator[Turn]:
        """Compute within, when it is this thread's turn.

        Args:
            waiting: called while the work waits.
            behind: seconds to fall back by from the start; see `Turn.fall_back`.

        Yields: the turn, which should be offered to others between steps.
        """
        turn = Turn(self, waiting)
        if behind:
            turn.fall_back(behind)
        self.take(turn)
        try:
            yield turn
        finally:
            self.give_back(turn)

    def pass_on(self, turn: Turn) -> None:
        """Let waiting work go first if it comes before this turn's by now."""
        turn.count()
        with self._lock:
            if not self._queue or self._queue[0].rank > turn.rank:
                return
        self.give_back(turn)
        self.take(turn)

    def take(self, turn: Turn) -> None:
        """Wait for a place."""
        with self._lock:
            insort(self._queue, turn, key=attrgetter("rank"))
            self._let_in()
        try:
            while not turn.may.wait(_EVERY):
                self._lose_patience()
                turn.waiting(self._before(turn))
        except BaseException:
            with self._lock:
                if turn in self._queue:
                    self._queue.remove(turn)
                self._free(turn)  # it may have been let in meanwhile
            raise
        turn.begin()

    def give_back(self, turn: Turn) -> None:
        """Let others have the turn's place, if it has one."""
        if not turn.may.is_set():
            return
        turn.count()
        with self._lock:
            self._free(turn)

    def _free(self, turn: Turn) -> None:
        turn.may.clear()
        self._holders.pop(turn, None)
        self._let_in()

    def _let_in(self) -> None:
        while self._queue and len(self._holders) < self._places:
            turn = self._queue.pop(0)
            self._holders[turn] = time.monotonic()
            turn.may.set()

    def _lose_patience(self) -> None:
        late = time.monotonic() - self._patience
        with self._lock:
            for turn in [turn for turn, since in self._holders.items() if since < late]:
                self._free(turn)

    def _before(self, turn: Turn) -> int:
        with self._lock:
            return self._queue.index(turn) if turn in self._queue else 0


class Turn:
    """The right of one thread to compute.

    Attributes:
        may: set while the work may compute.
        rank: what the queue is in order of.
    """

    def __init__(self, turns: Turns, waiting: Waiting) -> None:
        self.may = threading.Event()
        self.waiting = waiting
        self.rank = self._came = time.monotonic()
        self._turns = turns
        self._behind = self._seconds = self._since = 0.0
        self._pieces = 1

    def offer(self) -> None:
        """Let others compute first if they come before this work; call it between its steps."""
        self._turns.pass_on(self)

    def fall_back(self, seconds: float) -> None:
        """Put this work behind what comes up to some seconds after it; call it when it turns out
        to be long.
        """
        self._behind = max(self._behind, seconds)
        self._place()

    def share(self, pieces: int) -> None:
        """Count this as several pieces of work, each of which takes an equal part of its time."""
        self._pieces = pieces

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let others compute while this work waits for something within.

        If that ends with an exception, the work goes on without a place.
        """
        self._turns.give_back(self)
        yield
        self._turns.take(self)

    def begin(self) -> None:
        """Start counting the thread's time."""
        self._since = time.thread_time()

    def count(self) -> None:
        """Count the thread's time so far."""
        now = time.thread_time()
        self._seconds += now - self._since
        self._since = now
        self._place()

    def _place(self) -> None:
        computed = _BEHIND * max(0.0, self._seconds / self._pieces - _SHORT)
        self.rank = self._came + self._behind + computed
