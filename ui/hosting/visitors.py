"""Limit on concurrent visitors, and eviction of idle ones when others wait.

A visitor is an open websocket of Streamlit's. `HEADLIGHT_SESSIONS` sets the limit, 0 for none; the
default of a public server is 200. `HEADLIGHT_IDLE_MINUTES` sets the idle time after which a visitor
may be evicted, 0 for never.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from urllib.parse import parse_qs, quote, urlsplit

from google.protobuf.message import DecodeError
from starlette.types import Message, Receive, Scope, Send
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from ui.core.public import whole_number

VARIABLE = "HEADLIGHT_SESSIONS"
IDLE_VARIABLE = "HEADLIGHT_IDLE_MINUTES"

#: Limit of a public server: a visitor takes about 13 MB, see docs/capacity.md.
_PUBLIC = 200

#: Idle minutes on a public server: longer than a teacher talks about one picture.
_PUBLIC_IDLE = 30

#: Seconds for which the place of an evicted visitor is reserved for the one who waited, from the
#: page to its websocket over a slow line.
_RESERVED = 30.0

#: Address of an evicted visitor's browser, below the app's base path.
EXPIRED = "_headlight/place"

#: An address on this server: no other host, nothing that ends a header.
_LOCAL = re.compile(r"/(?![/\\])[!-~]*")

#: The app's start, relative to `EXPIRED`.
_START = "../"


@dataclass(eq=False)
class Place:
    """A visitor's place."""

    acted: float  # time of the last action, by the clock of `Visitors`
    evicted: bool = False  # whether the visitor lost it
    #: tells the visitor so and ends the connection; set by the connection
    evict: Callable[[], Coroutine[None, None, None]] | None = None


class Visitors:
    """The visitors of this server. Thread-safe."""

    def __init__(
        self, most: int, idle: float = 0.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Args: most: limit.  idle: idle seconds before an eviction.  0 for none."""
        self.most, self.idle = most, idle
        self.turned_away = self.evictions = 0
        self._clock = clock
        self._places: set[Place] = set()
        self._reserved: list[float] = []  # times of expiry, the earliest first
        self._lock = threading.Lock()

    @property
    def now(self) -> int:
        """Number of visitors."""
        return len(self._places)

    @property
    def full(self) -> bool:
        """True if no place is left."""
        with self._lock:
            return self._left() < 1

    @contextmanager
    def place(self, returning: bool = False) -> Iterator[Place | None]:
        """Hold a place within, None if none is left.

        Args: returning: whether the visitor reconnects. Reserved places are for others: an evicted
            visitor would take the place back at once.
        """
        place = None
        with self._lock:
            if self._left() + (not returning and bool(self._reserved)) > 0:
                place = Place(self._clock())
                self._places.add(place)
                if not returning:
                    del self._reserved[:1]
            else:
                self.turned_away += 1
        try:
            yield place
        finally:
            if place:
                with self._lock:
                    self._places.discard(place)

    def acts(self, place: Place) -> None:
        """Record an action."""
        place.acted = self._clock()

    def make_room(self) -> Place | None:
        """Evict the visitor who has been idle longest, and reserve the place for a new page.

        Returns: the place, if somebody has been idle for long enough.
        """
        with self._lock:
            idlest = min(self._places, key=lambda each: each.acted, default=None)
            now = self._clock()
            if not self.idle or idlest is None or now - idlest.acted < self.idle:
                return None
            idlest.evicted = True
            self._places.discard(idlest)
            self._reserved.append(now + _RESERVED)
            self.evictions += 1
        return idlest

    def _left(self) -> int:
        """Return the number of free places. The lock is held."""
        now = self._clock()
        self._reserved = [until for until in self._reserved if until > now]
        return self.most - len(self._places) - len(self._reserved) if self.most else 1


def most_visitors() -> int:
    """Return the limit of visitors at once, 0 for none. Raises: `ValueError`, one line."""
    return whole_number(VARIABLE, 0, _PUBLIC)


def idle_minutes() -> int:
    """Return the idle minutes before an eviction, 0 for never. Raises: `ValueError`, one line."""
    return whole_number(IDLE_VARIABLE, 0, _PUBLIC_IDLE)


#: Visitors of this server; the limits are read when it starts.
VISITORS = Visitors(0)


def watched(visitors: Visitors, place: Place, receive: Receive, send: Send) -> tuple[Receive, Send]:
    """Return a connection's ends, which record actions and go silent after an eviction."""

    async def watched_receive() -> Message:
        message = await receive()
        if visitors.idle and acts(message.get("bytes") or b""):
            visitors.acts(place)
        return message

    async def watched_send(message: Message) -> None:
        if not place.evicted:
            await send(message)

    async def evict() -> None:
        # Streamlit's client follows it at once. It is relative to the page, whose depth and prefix
        # only the browser knows. Pages have one segment.
        redirect = ForwardMsg()
        redirect.auth_redirect.url = EXPIRED
        with suppress(OSError, RuntimeError):  # the visitor has left meanwhile
            await send({"type": "websocket.send", "bytes": redirect.SerializeToString()})
            await send({"type": "websocket.close", "code": 1000, "reason": "idle"})

    place.evict = evict
    return watched_receive, watched_send


def acts(data: bytes) -> bool:
    """Return whether a message of Streamlit's client is a visitor's action, not a timer's."""
    try:
        message = BackMsg.FromString(data)
    except DecodeError:
        return False
    kind = message.WhichOneof("type")
    return kind not in (None, "app_heartbeat") and not message.rerun_script.is_auto_rerun


def returns(scope: Scope) -> bool:
    """Return whether a websocket resumes a session, which its third protocol then names."""
    offered = dict(scope["headers"]).get(b"sec-websocket-protocol", b"").split(b",")
    return len(offered) > 2 and bool(offered[2].strip())


def link_of(scope: Scope) -> str:
    """Return the address of an evicted visitor's view; if unknown, `_START`."""
    named = parse_qs(scope["query_string"].decode("latin-1")).get("link")
    link = named[0] if named else _referrer(scope)
    return link if _LOCAL.fullmatch(link) else _START


def next_look(link: str) -> str:
    """Return the address, relative to `EXPIRED`, that looks for a place and then opens `link`."""
    return f"place?link={quote(link, safe='')}"


def _referrer(scope: Scope) -> str:
    try:
        parts = urlsplit(dict(scope["headers"]).get(b"referer", b"").decode("latin-1"))
    except ValueError:
        return ""
    return f"{parts.path}?{parts.query}" if parts.query else parts.path
