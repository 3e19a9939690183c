"""ASGI middleware in front of Streamlit: headers, a limit on visitors, hidden endpoints."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from streamlit import config

from ui.core.public import is_public
from ui.hosting.headers import Headers, headers_of
from ui.hosting.state import state
from ui.hosting.visitors import AGAIN, VISITORS

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Asgi = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

#: Where a balancer asks whether this server is ready, below the app's base path.
READY = "_headlight/ready"

#: Streamlit's endpoints that a public server does not need: nothing is uploaded, and its counters
#: tell strangers what the server does.
_HIDDEN = ("_stcore/metrics", "_stcore/upload_file", "_stcore/agent", "_stcore/script-health-check")

_STREAM = "_stcore/stream"


class Gate:
    """Adds headers to every answer, limits visitors, hides what a public server does not show."""

    def __init__(self, app: Asgi) -> None:
        self.app = app

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request or pass it on."""
        if scope["type"] == "websocket":
            await self._stream(scope, receive, send)
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        common = headers_of(_encrypted(scope))

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                named = {name for name, _ in common}
                own = [pair for pair in message.get("headers", ()) if pair[0].lower() not in named]
                message = {**message, "headers": [*own, *common]}
            await send(message)

        path = below_base(scope["path"])
        if path == READY:
            await _ready(with_headers)
        elif is_public() and path.startswith(_HIDDEN):
            await _answer(with_headers, 404, b"Not found", b"text/plain")
        elif VISITORS.full and is_page(path) and scope["method"] == "GET":
            VISITORS.turned_away += 1
            again = [(b"retry-after", str(AGAIN).encode())]
            await _answer(with_headers, 503, VISITORS.page(), b"text/html; charset=utf-8", again)
        else:
            await self.app(scope, receive, with_headers)

    async def _stream(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if below_base(scope["path"]) != _STREAM:
            await self.app(scope, receive, send)
            return
        with VISITORS.place() as given:
            if given:
                await self.app(scope, receive, send)
            else:
                await receive()  # the handshake, which is refused with 403
                await send({"type": "websocket.close", "code": 1013, "reason": "full"})


def below_base(path: str) -> str:
    """Return a request's path below the app's base path, without slashes at its ends."""
    parts = [part for part in path.split("/") if part]
    base = [part for part in (config.get_option("server.baseUrlPath") or "").split("/") if part]
    return "/".join(parts[len(base) :] if parts[: len(base)] == base else parts)


def is_page(path: str) -> bool:
    """Return whether a path below the base is a page of the app, not a file or an endpoint."""
    last = path.split("/")[-1]
    return "." not in last and not last.startswith("_") and not path.startswith(("_", "static/"))


def _encrypted(scope: MutableMapping[str, Any]) -> bool:
    forwarded = dict(scope["headers"]).get(b"x-forwarded-proto", b"")
    return scope.get("scheme") == "https" or forwarded == b"https"


async def _ready(send: Send) -> None:
    found = state(needs_model=is_public())
    status = 200 if found.ready else 503
    body = json.dumps(found.to_dict()).encode()
    await _answer(send, status, body, b"application/json", [(b"cache-control", b"no-store")])


async def _answer(
    send: Send, status: int, body: bytes, kind: bytes, more: Headers | None = None
) -> None:
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), *(more or [])]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
