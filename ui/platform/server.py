"""Endpoints and messages of Streamlit, websockets of uvicorn."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from starlette.types import Receive
from streamlit import net_util
from streamlit.proto.AuthRedirect_pb2 import AuthRedirect
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

__all__ = [
    "CLOSED", "COUNTERS", "KNOWN_BASE", "STREAM", "TRANSLATED", "Connection", "DecodeError",
    "contact_no_server", "kind_of", "message_to_open_again", "serve_websockets_by", "widgets_in",
]  # fmt: skip

#: Endpoint of the app's websocket.
STREAM = "_stcore/stream"

#: Endpoints that the app does not use.
CLOSED = ("_stcore/upload_file", "_stcore/agent", "_stcore/script-health-check")

#: Endpoint of counters, closed on public servers.
COUNTERS = "_stcore/metrics"

#: JavaScript that gives Streamlit's client the app's address `base`.
KNOWN_BASE = """
  const known = { BACKEND_BASE_URL: `${location.origin}/${base}` };
  window.__streamlit = { ...window.__streamlit, ...known };"""

#: JavaScript that keeps React and a browser's translator apart.
TRANSLATED = (Path(__file__).parent / "translated.js").read_text("utf-8")

#: Send buffer in bytes, which Linux doubles; its default holds megabytes for a browser that does
#: not read.
_WAITING = 131_072

#: Bytes parsed between counts of frames: 700 empty frames, 9 ms.
_PIECE = 4_096


def contact_no_server() -> None:
    """Keep Streamlit from asking an external server for this server's address.

    Otherwise every connection from another site's page does so and blocks all visitors.
    """
    net_util.get_external_ip = lambda: None


def kind_of(data: bytes) -> tuple[str | None, BackMsg]:
    """Parse a browser's message; return its kind and the message. Raises: `DecodeError`."""
    message = BackMsg.FromString(data)
    kind = message.WhichOneof("type")
    if kind == "backend_operation_request":
        kind = message.backend_operation_request.WhichOneof("payload")
    return kind, message


def widgets_in(message: BackMsg) -> tuple[int, Iterator[int]]:
    """Return the number of widgets in a browser's message, and their lengths in characters."""
    widgets = message.rerun_script.widget_states.widgets
    return len(widgets), (len(widget.json_value or widget.json_trigger_value) for widget in widgets)


def message_to_open_again() -> bytes:
    """Return the message that makes a browser reload its address."""
    message: bytes = ForwardMsg(auth_redirect=AuthRedirect(url="")).SerializeToString()
    return message


def serve_websockets_by(connection: type[Connection], receive: Receive) -> None:
    """Make uvicorn use a connection class, for which Streamlit has no option.

    Args: receive: of the ASGI lifespan.
    """
    server: Any = getattr(receive, "__self__", None)
    if hasattr(server, "config"):
        server.config.ws_protocol_class = connection


class Connection(WebSocketsSansIOProtocol):
    """A websocket that ends if the browser sends too much, too often, or does not read.

    Streamlit's own message limit applies in both directions and must admit answers of megabytes.
    """

    #: Limit for a browser's message in bytes.
    most_bytes: int

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.conn.max_message_size = self.most_bytes

    def admits(self, frames: int) -> bool:
        """Return True if this many more frames may arrive now."""
        del frames
        return True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send small answers without delay."""
        super().connection_made(transport)
        with suppress(OSError):  # no TCP
            connection: socket.socket = transport.get_extra_info("socket")
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _WAITING)

    def data_received(self, data: bytes) -> None:
        """Parse received bytes in pieces."""
        for start in range(0, len(data), _PIECE):
            if not self.transport.is_closing():
                super().data_received(data[start : start + _PIECE])

    def handle_events(self) -> None:
        """Handle frames, or close a connection that sends too many."""
        if self.admits(len(self.conn.events)):
            super().handle_events()
        else:
            self.conn.fail(1008, "too many messages")
            self.handle_parser_exception()
        if self.conn.handshake_exc is not None:  # uvicorn would not answer or close
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()

    def handle_parser_exception(self) -> None:
        """End a connection that broke the protocol, unsent data included."""
        if self.conn.close_sent is not None:
            super().handle_parser_exception()
        self.transport.abort()

    def keepalive_timeout(self) -> None:
        """End a connection that does not answer, unsent data included."""
        super().keepalive_timeout()
        self.transport.abort()

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        """Close the connection after a timeout, so that the browser can read the end."""
        super().on_task_complete(task)
        self.loop.call_later(self.close_timeout, self.transport.abort)
