"""ASGI middleware in front of Streamlit: headers, a limit on visitors, hidden endpoints."""

from __future__ import annotations

import asyncio
import json
from collections.abc import MutableMapping
from typing import Any

from streamlit import config

from ui.core.public import is_public
from ui.hosting import visit
from ui.hosting.asgi import Asgi, Message, Receive, Send
from ui.hosting.full_pages import AGAIN, full_page, given_up_page
from ui.hosting.headers import Headers, headers_of, policy_of
from ui.hosting.state import state
from ui.hosting.visitors import VISITORS

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
        # A loop holds its tasks weakly.
        self._farewells: set[asyncio.Task[None]] = set()

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
        elif f"/{path}".endswith(f"/{visit.GIVEN_UP}"):
            await _wait_again(with_headers, visit.link_of(scope))
        elif VISITORS.full and is_page(path) and scope["method"] == "GET" and not self._make_room():
            VISITORS.turned_away += 1
            await _refuse(with_headers, full_page(VISITORS.most, VISITORS.idle))
        else:
            await self.app(scope, receive, with_headers)

    async def _stream(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if below_base(scope["path"]) != _STREAM:
            await self.app(scope, receive, send)
            return
        with VISITORS.place(visit.returns(scope)) as place:
            if place:
                await self.app(scope, *visit.watched(VISITORS, place, receive, send))
            else:
                await receive()  # the handshake, which is refused with 403
                await send({"type": "websocket.close", "code": 1013, "reason": "full"})

    def _make_room(self) -> bool:
        """Let an idle visitor go, if there is one. Returns: whether there is a place now."""
        place = VISITORS.make_room()
        if place and place.farewell:
            task = asyncio.create_task(place.farewell())
            self._farewells.add(task)
            task.add_done_callback(self._farewells.discard)
        return place is not None


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


async def _wait_again(send: Send, link: str) -> None:
    """Answer who gave a place up: by the view at `link` as soon as there is a place."""
    if VISITORS.full:
        idle = VISITORS.idle  # 0: nobody gave one up, and only the address was typed
        page = given_up_page(idle, visit.next_look(link)) if idle else full_page(VISITORS.most, 0)
        await _refuse(send, page)
    else:
        fresh = [(b"location", link.encode()), (b"cache-control", b"no-store")]
        await _answer(send, 303, b"", b"text/plain", fresh)


async def _refuse(send: Send, page: bytes) -> None:
    headers = [
        (b"retry-after", str(AGAIN).encode()),
        (b"cache-control", b"no-store"),
        (b"content-security-policy", policy_of(page)),
    ]
    await _answer(send, 503, page, b"text/html; charset=utf-8", headers)


async def _answer(
    send: Send, status: int, body: bytes, kind: bytes, more: Headers | None = None
) -> None:
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), *(more or [])]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
