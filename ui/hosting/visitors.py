"""Limits on the number of visitors, their messages and their idle time.

A visitor is an open Streamlit websocket. `HEADLIGHT_SESSIONS` sets the limit, 0 for none; the
default is 200 on a public server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.types import Message, Receive, Send

from ui.core.public import whole_number
from ui.platform.server import Connection, DecodeError, kind_of, message_to_open_again, widgets_in
from ui.work.visit import Pace

VARIABLE = "HEADLIGHT_SESSIONS"

#: A public server's limit: a visitor takes about 13 MB, see docs/capacity.md.
_PUBLIC = 200

#: Minutes until an idle connection is closed: more than a teacher spends on one picture.
IDLE = 30

#: Seconds until a full server's page tries again.
AGAIN = 20

#: Seconds for which an idle visitor keeps the place while the page reopens, to be first in line.
_KEPT = 5.0

#: Maximum bytes in a browser's message: three texts as long as their boxes allow, and the URL. An
#: empty widget takes 2 bytes, and 45 when it is parsed.
MOST_BYTES = 300_000

#: Maximum widgets in a message (the fullest page has about 60), and characters that a component
#: reports (a list of all heads is the longest; three characters take 64 bytes when parsed).
MOST_WIDGETS, MOST_REPORTED = 1_000, 20_000

#: Frames per second and burst from a browser: messages, their parts, and pings.
RATE, BURST = 50.0, 200.0

#: Streamlit's messages that the app accepts. Others could clear the caches of all sessions, run
#: git, or make upload URLs, 300 bytes for every 2 bytes received.
_ACCEPTED = ("rerun_script", "stop_script", "app_heartbeat", "deferred_file")


class Visitors:
    """The number of visitors, counted in the event loop's thread.

    Attributes: most: the limit, 0 for none.  now: the current number.
    """

    def __init__(self, most: int) -> None:
        self.most, self.now = most, 0

    @property
    def full(self) -> bool:
        """True if all places are taken."""
        return bool(self.most) and self.now >= self.most

    @contextmanager
    def place(self) -> Iterator[bool]:
        """Reserve a place; yield False if the server is full."""
        admitted = not self.full
        self.now += admitted
        try:
            yield admitted
        finally:
            self.now -= admitted


def most_visitors() -> int:
    """Return the maximum number of visitors, 0 for no limit. Raises `ValueError`, one line."""
    return whole_number(VARIABLE, 0, _PUBLIC)


#: This server's visitors; the limit is set at the start.
VISITORS = Visitors(0)

#: New connections per second and burst, per address. Further connections wait up to 10 seconds; a
#: browser gives up after 15.
ARRIVALS = Pace(20.0, 20.0, latest=10.0)

#: A connection closed for a broken message counts as 20 arrivals; close code for an idle visitor.
_BROKEN, _IDLE = 20, 1001

#: Bytes per second and burst, per address, and the bytes added to each message. Further messages
#: wait up to a second. A server answers about 25 small messages per second.
HEARD, _OVERHEAD = Pace(500_000.0, 500_000.0, latest=1.0), 10_000


class Line:
    """A visitor's websocket, as the app reads and writes it."""

    def __init__(self, visitors: Visitors, receive: Receive, send: Send, address: str = "") -> None:
        self._visitors, self._receive, self._send = visitors, receive, send
        self._address = address
        self._sending = self._ended = False

    async def send(self, message: Message) -> None:
        """Send the app's message, unless the visitor has left."""
        if self._ended:
            return
        self._sending = True
        try:
            await self._send(message)
        except (OSError, RuntimeError):
            self._ended = True
        finally:
            self._sending = False

    async def receive(self) -> Message:
        """Return the next message for the app, once the visitor has read all answers."""
        while True:
            try:
                async with asyncio.timeout(60 * IDLE):
                    message = await self._receive()
            except TimeoutError:
                if self._visitors.full:  # the page reopens and waits for a place
                    await self.send({"type": "websocket.send", "bytes": message_to_open_again()})
                    await asyncio.sleep(_KEPT)
                return await self._end(_IDLE)
            if message["type"] != "websocket.receive":
                return message
            data = message.get("bytes")
            data = b"\xff" if data is None else data  # reject text frames
            await asyncio.sleep(HEARD.take(_OVERHEAD + len(data), self._address))
            try:
                kind, content = kind_of(data)
            except DecodeError:
                return await self._end(1002)
            n_widgets, reports = widgets_in(content)
            if n_widgets > MOST_WIDGETS or max(reports, default=0) > MOST_REPORTED:
                return await self._end(1009)
            if kind not in _ACCEPTED:
                continue
            while self._sending:
                await asyncio.sleep(0.05)
            return message

    async def _end(self, code: int) -> Message:
        if code != _IDLE:
            ARRIVALS.take(_BROKEN, self._address)
        await self.send({"type": "websocket.close", "code": code})
        self._ended = True
        return {"type": "websocket.disconnect", "code": code}


class Bounded(Connection):
    """A visitor's websocket, with limits on what a browser sends."""

    most_bytes = MOST_BYTES

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._frames = Pace(RATE, BURST)

    def admits(self, frames: int) -> bool:
        """Count frames; return False above the limit."""
        return self._frames.take(frames) == 0
