"""ASGI middleware in front of Streamlit: headers, a limit on visitors, hidden endpoints."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from html import escape

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit import config

from ui.core.public import is_public
from ui.hosting import visitors as places
from ui.hosting.headers import Headers, headers_of, policy_of
from ui.hosting.state import state
from ui.hosting.visitors import VISITORS

#: Path of the readiness check for balancers, below the app's base path.
READY = "_headlight/ready"

#: Streamlit's endpoints that a public server does not need: nothing is uploaded, and its counters
#: tell strangers what the server does.
_HIDDEN = ("_stcore/metrics", "_stcore/upload_file", "_stcore/agent", "_stcore/script-health-check")

_STREAM = "_stcore/stream"

#: Seconds after which the "server full" and "session expired" pages reload.
_AGAIN = 20

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="{refresh}">
<style>
:root {{ color-scheme: light dark }}
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 34rem; margin: 20vh auto; padding: 0 1rem;
  background: light-dark(#fdfcf9, #0f0e0d); color: light-dark(#1d1c26, #efebe4) }}
h1 {{ font-size: 1.5rem; font-weight: 600 }}
</style></head>
<body><h1>{heading}</h1>
<p>{text}</p>
</body></html>
"""


class Gate:
    """Adds headers to every answer, limits visitors, hides endpoints of a public server."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        # A loop holds its tasks weakly.
        self._evictions: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request or pass it on."""
        if scope["type"] == "websocket":
            await self._stream(scope, receive, send)
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        forwarded = dict(scope["headers"]).get(b"x-forwarded-proto", b"")
        common = headers_of(scope.get("scheme") == "https" or forwarded == b"https")

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                named = {name for name, _ in common}
                own = [pair for pair in message.get("headers", ()) if pair[0].lower() not in named]
                message = {**message, "headers": [*own, *common]}
            await send(message)

        path = below_base(scope["path"])
        if path == READY:
            found = state(needs_model=is_public())
            body = json.dumps(asdict(found)).encode()
            status = 200 if found.ready else 503
            await _answer(with_headers, status, body, b"application/json", [_NO_STORE])
        elif is_public() and path.startswith(_HIDDEN):
            await _answer(with_headers, 404, b"Not found", b"text/plain")
        elif f"/{path}".endswith(f"/{places.EXPIRED}"):
            await _return(with_headers, places.link_of(scope))
        elif VISITORS.full and is_page(path) and scope["method"] == "GET" and not self._make_room():
            VISITORS.turned_away += 1
            await _refuse(with_headers, _full_page(VISITORS.idle))
        else:
            await self.app(scope, receive, with_headers)

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        if below_base(scope["path"]) != _STREAM:
            await self.app(scope, receive, send)
            return
        with VISITORS.place(places.returns(scope)) as place:
            if place:
                await self.app(scope, *places.watched(VISITORS, place, receive, send))
            else:
                await receive()  # the handshake, which is refused with 403
                await send({"type": "websocket.close", "code": 1013, "reason": "full"})

    def _make_room(self) -> bool:
        """Evict an idle visitor; return whether there is a place now."""
        place = VISITORS.make_room()
        if place and place.evict:
            task = asyncio.create_task(place.evict())
            self._evictions.add(task)
            task.add_done_callback(self._evictions.discard)
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


async def _return(send: Send, link: str) -> None:
    """Send an evicted visitor back to `link` once there is a place."""
    if VISITORS.full:
        idle = VISITORS.idle  # 0: nobody was evicted, and only the address was typed
        page = _expired_page(idle, places.next_look(link)) if idle else _full_page(0)
        await _refuse(send, page)
    else:
        await _answer(send, 303, b"", b"text/plain", [(b"location", link.encode()), _NO_STORE])


def _full_page(idle: float) -> bytes:
    """Return the "server full" page. Args: idle: seconds until an idle place is given away."""
    text = (
        f"At most {VISITORS.most:,} people can use Headlight here at once. This page retries every "
        f"{_AGAIN} seconds and keeps your link."
    )
    if idle:
        text += f" Visitors who are idle for {_minutes(idle)} lose their place."
    return _page("Headlight is full", f"{_AGAIN}", "Every place is taken", text)


def _expired_page(idle: float, next_look: str) -> bytes:
    """Return the "session expired" page, which opens `next_look` after a while."""
    return _page(
        "Headlight is waiting",
        f"{_AGAIN}; url={next_look}",
        "Your place went to someone waiting",
        f"You were idle for {_minutes(idle)} and every place was taken. This page retries every "
        f"{_AGAIN} seconds and then returns to your view.",
    )


def _page(title: str, refresh: str, heading: str, text: str) -> bytes:
    parts = {"title": title, "refresh": refresh, "heading": heading, "text": text}
    return _PAGE.format(**{name: escape(part) for name, part in parts.items()}).encode()


def _minutes(seconds: float) -> str:
    minutes = round(seconds / 60)
    return "a minute" if minutes == 1 else f"{minutes:,} minutes"


_NO_STORE = (b"cache-control", b"no-store")


async def _refuse(send: Send, page: bytes) -> None:
    policy = (b"content-security-policy", policy_of(page))
    headers = [(b"retry-after", str(_AGAIN).encode()), _NO_STORE, policy]
    await _answer(send, 503, page, b"text/html; charset=utf-8", headers)


async def _answer(
    send: Send, status: int, body: bytes, kind: bytes, more: Headers | None = None
) -> None:
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), *(more or [])]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
