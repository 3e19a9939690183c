"""Visitors: how many at once, what each may send, and idle ones who make room for others.

A visitor is an open websocket of Streamlit's. `HEADLIGHT_SESSIONS` sets the limit, 0 for none; the
default of a public server is 200.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from google.protobuf.message import DecodeError
from starlette.types import Message, Receive, Send
from streamlit.proto.AuthRedirect_pb2 import AuthRedirect
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from ui.core.public import Pace, whole_number

VARIABLE = "HEADLIGHT_SESSIONS"

#: Limit of a public server: a visitor takes about 13 MB, see docs/capacity.md.
_PUBLIC = 200

#: Minutes without a message after which a connection ends: longer than a teacher talks about one
#: picture.
IDLE = 30

#: Seconds after which the page of a full server asks again.
AGAIN = 20

#: Seconds for which an idle visitor keeps the place while the page opens again: that browser asks
#: first.
_KEPT = 5.0

#: Bytes of a message from a browser: three texts of as many characters as their boxes take, and the
#: address. A widget without content takes 2 bytes, and 45 when it is parsed.
MOST_BYTES = 300_000

#: Widgets in a message, of which the fullest page has about 60; characters of what a component
#: reports, of which a list of all heads has the most. Three of them take 64 bytes when parsed.
MOST_WIDGETS, MOST_REPORTED = 1_000, 20_000

#: Frames from a browser a second, and at once: messages, their parts, and pings.
RATE, BURST = 50.0, 200.0

#: Bytes on their way to a browser; Linux doubles them, and would let megabytes wait for one that
#: does not read.
_WAITING = 131_072

#: Bytes parsed before frames are counted: 700 empty frames, 9 ms.
_PIECE = 4_096

#: Messages of Streamlit's client that the app answers. Others would clear the caches of all
#: sessions, run git, or make addresses for uploads, 300 bytes for each 2 of the message.
_HEARD = ("rerun_script", "stop_script", "app_heartbeat", "deferred_file")


class Visitors:
    """The visitors of this server, counted in the thread of its event loop.

    Attributes:
        most: how many may be here at once, 0 for no limit.
        now: how many are.
    """

    def __init__(self, most: int) -> None:
        self.most, self.now = most, 0

    @property
    def full(self) -> bool:
        """True if no place is left."""
        return bool(self.most) and self.now >= self.most

    @contextmanager
    def place(self) -> Iterator[bool]:
        """Hold a place within. Yields: False if none is left."""
        given = not self.full
        self.now += given
        try:
            yield given
        finally:
            self.now -= given


def most_visitors() -> int:
    """Return the limit of visitors at once, 0 for none. Raises: `ValueError`, one line."""
    return whole_number(VARIABLE, 0, _PUBLIC)


#: Visitors of this server; the limit is read when it starts.
VISITORS = Visitors(0)

#: New connections of an address, a second and at once; further ones wait, at most some seconds. A
#: browser gives up after 15.
ARRIVALS = Pace(20.0, 20.0, latest=10.0)

#: Connections as which one counts that ended for a broken message; the code of an idle one's end.
_BROKEN, _IDLE = 20, 1001

#: Bytes of an address heard a second and at once, and those that a message counts at least. The
#: rest waits up to a second. A server answers some 25 small messages a second.
HEARD, _AT_LEAST = Pace(500_000.0, 500_000.0, latest=1.0), 10_000


class Line:
    """A visitor's websocket, as the app reads and writes it."""

    def __init__(self, visitors: Visitors, receive: Receive, send: Send, address: str = "") -> None:
        self._visitors, self._receive, self._send = visitors, receive, send
        self._address = address
        self._sending = self._ended = False

    async def send(self, message: Message) -> None:
        """Send a message of the app, unless the visitor has left."""
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
        """Return the next message for the app, as soon as the visitor has read all answers."""
        while True:
            try:
                async with asyncio.timeout(60 * IDLE):
                    message = await self._receive()
            except TimeoutError:
                if self._visitors.full:  # open the same address again, and wait there like others
                    again = ForwardMsg(auth_redirect=AuthRedirect(url=""))
                    await self.send({"type": "websocket.send", "bytes": again.SerializeToString()})
                    await asyncio.sleep(_KEPT)
                return await self._end(_IDLE)
            if message["type"] != "websocket.receive":
                return message
            data = message.get("bytes")
            data = b"\xff" if data is None else data  # a text is no message
            await asyncio.sleep(HEARD.take(_AT_LEAST + len(data), self._address))
            try:
                said = BackMsg.FromString(data)
            except DecodeError:
                return await self._end(1002)
            widgets = said.rerun_script.widget_states.widgets
            reports = (len(each.json_value or each.json_trigger_value) for each in widgets)
            if len(widgets) > MOST_WIDGETS or max(reports, default=0) > MOST_REPORTED:
                return await self._end(1009)
            kind = said.WhichOneof("type")
            if kind == "backend_operation_request":
                kind = said.backend_operation_request.WhichOneof("payload")
            if kind not in _HEARD:
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


class Bounded(WebSocketsSansIOProtocol):
    """A connection that ends if the browser sends too much, too often, or does not read.

    Streamlit has one limit for messages in both directions, and its largest answers are some
    megabytes.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.conn.max_message_size = MOST_BYTES
        self._frames = Pace(RATE, BURST)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send small answers at once, as asyncio does not for Streamlit's sockets."""
        super().connection_made(transport)
        with suppress(OSError):  # no TCP
            connection: socket.socket = transport.get_extra_info("socket")
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _WAITING)

    def data_received(self, data: bytes) -> None:
        """Parse what arrived."""
        for start in range(0, len(data), _PIECE):
            if not self.transport.is_closing():
                super().data_received(data[start : start + _PIECE])

    def handle_events(self) -> None:
        """Pass frames on."""
        if self._frames.take(len(self.conn.events)) == 0:
            super().handle_events()
        else:
            self.conn.fail(1008, "too many messages")
            self.handle_parser_exception()
        if self.conn.handshake_exc is not None:  # uvicorn leaves some unanswered, and open
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()

    def handle_parser_exception(self) -> None:
        """End a connection that broke a rule, with what is still to send."""
        if self.conn.close_sent is not None:
            super().handle_parser_exception()
        self.transport.abort()

    def keepalive_timeout(self) -> None:
        """End a connection that does not answer, with what is still to send."""
        super().keepalive_timeout()
        self.transport.abort()

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        """Give the browser a while to read the end."""
        super().on_task_complete(task)
        self.loop.call_later(self.close_timeout, self.transport.abort)
