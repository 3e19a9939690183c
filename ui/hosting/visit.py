"""A visit as the gate sees it: whether its visitor acts, and its end when the place is given up."""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from google.protobuf.message import DecodeError
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from ui.hosting.asgi import Message, Receive, Send
from ui.hosting.visitors import Place, Visitors

#: Where the browser of a visitor goes whose place was given up, below the app's base path.
GIVEN_UP = "_headlight/place"

#: An address on this server: no other host, nothing that ends a header.
_LOCAL = re.compile(r"/(?![/\\])[!-~]*")

#: The app's start, from `GIVEN_UP`.
_START = "../"


def _farewell() -> bytes:
    # Streamlit's client follows it at once, and it is relative to the page, whose depth and prefix
    # only the browser knows. Pages have one segment.
    message = ForwardMsg()
    message.auth_redirect.url = GIVEN_UP
    return bytes(message.SerializeToString())


def watched(visitors: Visitors, place: Place, receive: Receive, send: Send) -> tuple[Receive, Send]:
    """Return how the app hears and answers a visitor who holds a place."""

    async def hear() -> Message:
        message = await receive()
        if visitors.idle and acts(message.get("bytes") or b""):
            visitors.acts(place)
        return message

    async def say(message: Message) -> None:
        if not place.given_up:
            await send(message)

    async def farewell() -> None:
        with suppress(OSError, RuntimeError):  # the visitor has left meanwhile
            await send({"type": "websocket.send", "bytes": _farewell()})
            await send({"type": "websocket.close", "code": 1000, "reason": "idle"})

    place.farewell = farewell
    return hear, say


def acts(data: bytes) -> bool:
    """Return whether a message of Streamlit's client comes from a visitor, not from a timer."""
    try:
        message = BackMsg.FromString(data)
    except DecodeError:
        return False
    kind = message.WhichOneof("type")
    return kind not in (None, "app_heartbeat") and not message.rerun_script.is_auto_rerun


def returns(scope: MutableMapping[str, Any]) -> bool:
    """Return whether a websocket goes on with a session, which its third protocol names then."""
    offered = dict(scope["headers"]).get(b"sec-websocket-protocol", b"").split(b",")
    return len(offered) > 2 and bool(offered[2].strip())


def link_of(scope: MutableMapping[str, Any]) -> str:
    """Return the address that a visitor saw who gave a place up, as the browser tells it.

    It is relative to the server, or to `GIVEN_UP` where it is not known.
    """
    named = parse_qs(scope["query_string"].decode("latin-1")).get("link")
    link = named[0] if named else _referrer(scope)
    return link if _LOCAL.fullmatch(link) else _START


def next_look(link: str) -> str:
    """Return the address, relative to `GIVEN_UP`, that looks for a place and then opens `link`."""
    return f"place?link={quote(link, safe='')}"


def _referrer(scope: MutableMapping[str, Any]) -> str:
    try:
        parts = urlsplit(dict(scope["headers"]).get(b"referer", b"").decode("latin-1"))
    except ValueError:
        return ""
    return f"{parts.path}?{parts.query}" if parts.query else parts.path
