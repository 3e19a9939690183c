"""ASGI middleware in front of Streamlit: headers, a limit on visitors, closed endpoints, readiness.

Every page gets its content security policy and its base URL. The policy lets a page load and run
only this app: its scripts are allowed by their hashes; Streamlit loads components' scripts from
blobs. Styles may be inline, since Streamlit's client writes them.

A browser at `/attention` cannot know whether the app is at `/` or at `/attention/`. Streamlit's
client requests the server's health at both, so every first visit would log a 404. The server knows
the URL's depth and writes the base into the page.
"""

import asyncio
import base64
import gzip
import hashlib
import os
import re
import threading
from typing import Any
from urllib.parse import urlsplit

import streamlit as st
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ui.core.public import is_public
from ui.hosting.visitors import AGAIN, ARRIVALS, IDLE, VISITORS, Bounded, Line
from ui.platform.server import CLOSED, COUNTERS, KNOWN_BASE, STREAM, TRANSLATED, serve_websockets_by
from ui.work.visit import Pace

#: Set once the pages' libraries are loaded.
libraries = threading.Event()

#: Why a public server's first model is not loaded yet; emptied by `ui.frame.serving`.
missing = ["the first model is being loaded"]


def state() -> dict[str, Any]:
    """Return `ready`, True if this server can serve a first page, or else `why` it cannot.

    `models` counts models in memory, `waiting` counts sentences, computations and files in queues,
    and `most_visitors` is the limit, 0 for none.
    """
    loaded = waiting = 0
    why = "" if libraries.is_set() else "libraries are being loaded"
    if not why:
        from ui.work import results

        loaded, waiting = len(results.MODELS), results.waiting()
        why = missing[0] if missing and is_public() else ""
    return {
        "ready": not why, "why": why, "models": loaded, "waiting": waiting,
        "visitors": VISITORS.now, "most_visitors": VISITORS.most,
    }  # fmt: skip


#: Origins that may show the app in a frame, separated by spaces.
FRAMES = "HEADLIGHT_FRAMES"

#: A scheme, a host and a port.
_ORIGIN = re.compile(
    r"https?://(\*\.)?LABEL(\.LABEL)*(:(?P<port>[1-9][0-9]{0,4}))?"
    .replace("LABEL", "[a-z0-9]([a-z0-9-]*[a-z0-9])?")
)  # fmt: skip

_INLINE = re.compile(rb"<script(?![^>]*\bsrc=)[^>]*>(.*?)</script>", re.DOTALL | re.IGNORECASE)


def headers_of(encrypted: bool) -> dict[str, str]:
    """Return the headers of every response; `encrypted` is True for https."""
    headers = {
        "x-content-type-options": "nosniff",
        "referrer-policy": "same-origin",
        "cross-origin-opener-policy": "same-origin",
        "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    }
    if is_public() and encrypted:  # for a year, browsers open this host only with encryption
        headers["strict-transport-security"] = "max-age=31536000"
    return headers


def policy_of(page: bytes) -> str:
    """Return a page's Content-Security-Policy, which allows only the page's own scripts."""
    hashes = ""
    for script in _INLINE.findall(page):
        # Browsers hash the parsed text, in which lines end in \n.
        text = script.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        hashes += f" 'sha256-{base64.b64encode(hashlib.sha256(text).digest()).decode('ascii')}'"
    rules = {
        "default-src": "'none'",
        "script-src": f"'self' blob:{hashes}",
        "style-src": "'self' 'unsafe-inline'",
        "img-src": "'self' data: blob:",
        "font-src": "'self' data:",
        "media-src": "'self'",
        "connect-src": "'self' blob: data:",
        "worker-src": "'self' blob:",
        "frame-src": "'self'",
        "manifest-src": "'self'",
        "base-uri": "'self'",
        "form-action": "'none'",
        "object-src": "'none'",
        "frame-ancestors": " ".join(["'self'", *frames()]),
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def frames() -> list[str]:
    """Return the origins that may show the app in a frame. Raises `ValueError`, one line."""
    origins = os.environ.get(FRAMES, "").split()
    for origin in origins:
        match = _ORIGIN.fullmatch(origin)
        if not match or int(match["port"] or 1) > 65_535:
            raise ValueError(
                f"{FRAMES}={origin[:60]!r}: must be origins such as https://example.org, "
                "separated by spaces"
            )
    return origins


#: Path of the readiness check for load balancers, below the app's base path.
READY = "_headlight/ready"

_FULL = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Headlight is full</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="{again}">
<style>
:root {{ color-scheme: light dark }}
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 34rem; margin: 20vh auto; padding: 0 1rem;
  background: light-dark(#fdfcf9, #0f0e0d); color: light-dark(#1d1c26, #efebe4) }}
h1 {{ font-size: 1.5rem; font-weight: 600 }}
</style></head>
<body><h1>Every place is taken</h1>
<p>At most {most:,} people can use Headlight here at the same time. This page keeps your link and
tries again every {again} seconds. Visitors lose their place after {idle} idle minutes.</p>
</body></html>
"""

#: The path is cut from its end: a proxy may add a prefix that the server does not see.
_BASE = """<script>
{{
  const parts = location.pathname.split("/").filter(Boolean);
  const base = parts.slice(0, Math.max(0, parts.length - {depth})).join("/");
  {known}
}}
</script>"""

#: Requests per second and burst, per address, as in `deploy/nginx.conf`; the burst serves a school.
#: Further requests wait up to 10 seconds.
REQUESTS = Pace(100.0, 18_000.0, latest=10.0)

#: Maximum number of bytes in a message, since unsent messages stay in memory.
_PIECE = 65_536

_NO_STORE = {"cache-control": "no-store"}

#: Headers that request a part of a file, or nothing if it has not changed.
_PARTIAL = (b"range", b"if-none-match", b"if-modified-since")


class Gate:
    """Adds headers to every response, limits visitors, and closes endpoints."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request or pass it on."""
        address, _ = scope.get("client") or ("", 0)
        if scope["type"] == "http":
            await asyncio.sleep(REQUESTS.take(1, address))
            await self._answer(scope, _silence, send)
        elif scope["type"] == "websocket":
            await self._stream(scope, receive, send, address)
        else:  # the server starts
            serve_websockets_by(Bounded, receive)
            await self.app(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        forwarded = Headers(scope=scope).get("x-forwarded-proto")
        https = "https" in (scope.get("scheme"), forwarded)

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(headers_of(https))
            body = message.get("body", b"")
            *starts, last = range(0, max(1, len(body)), _PIECE)
            for start in starts:
                part = body[start : start + _PIECE]
                await send({"type": message["type"], "body": part, "more_body": True})
            await send({**message, "body": body[last:]} if body else message)

        path = below_base(scope["path"])
        if path == READY:
            now = state()
            status = 200 if now["ready"] else 503
            await JSONResponse(now, status, _NO_STORE)(scope, receive, with_headers)
        elif path.startswith(CLOSED) or (is_public() and path.startswith(COUNTERS)):
            await PlainTextResponse("Not found", 404)(scope, receive, with_headers)
        else:
            # The policy needs the whole page; for HEAD, the server drops the body.
            method = "GET" if scope["method"] == "HEAD" else scope["method"]
            headers = [pair for pair in scope["headers"] if pair[0] not in _PARTIAL]
            scope = {**scope, "method": method, "headers": headers}
            await self.app(scope, receive, _pages(path, scope, receive, with_headers))

    async def _stream(self, scope: Scope, receive: Receive, send: Send, address: str) -> None:
        valid = _is_origin(Headers(scope=scope).get("origin", ""))
        await asyncio.sleep(ARRIVALS.take(1, address))
        with VISITORS.place() as admitted:
            if admitted and valid and below_base(scope["path"]) == STREAM:
                line = Line(VISITORS, receive, send, address)
                await self.app(scope, line.receive, line.send)
            else:
                await receive()  # the handshake, which 403 refuses
                await send({"type": "websocket.close", "code": 1013, "reason": "full"})


async def _silence() -> Message:
    """Wait forever, so the server never reads a request's body, which could be endless."""
    message: Message = await asyncio.get_running_loop().create_future()
    return message


def below_base(path: str) -> str:
    """Return a request's path below the app's base path, without slashes at either end."""
    base_path = st.get_option("server.baseUrlPath") or ""
    parts, base = ([part for part in text.split("/") if part] for text in (path, base_path))
    return "/".join(parts[len(base) :] if parts[: len(base)] == base else parts)


def _is_origin(text: str) -> bool:
    """Return False for an invalid URL, which makes Streamlit fail."""
    try:
        urlsplit(text)
    except ValueError:
        return False
    return True


def _pages(path: str, scope: Scope, receive: Receive, send: Send) -> Send:
    """Return a `send` that completes the app's page, or replaces it if the server is full.

    Args: path: below the app's base path.
    """
    depth = len(path.split("/")) if path else 0
    start: Message = {}
    body = bytearray()

    async def complete(message: Message) -> None:
        if message["type"] == "http.response.start" and _is_page(Headers(scope=message)):
            start.update(message)
            return
        if not start:
            await send(message)
            return
        body.extend(message.get("body", b""))
        if message.get("more_body"):
            return
        if VISITORS.full:
            full = _FULL.format(most=VISITORS.most, again=AGAIN, idle=IDLE)
            more = {"retry-after": f"{AGAIN}", "content-security-policy": policy_of(full.encode())}
            await HTMLResponse(full, 503, more | _NO_STORE)(scope, receive, send)
            return
        headers = MutableHeaders(scope=start)
        packed = headers.get("content-encoding") == "gzip"
        page = gzip.decompress(body) if packed else bytes(body)
        first = _BASE.format(depth=depth, known=KNOWN_BASE) if depth else ""
        first += f"<script>{TRANSLATED}</script>"
        page = page.replace(b"<head>", b"<head>" + first.encode(), 1)
        for name in ("content-encoding", "etag", "last-modified"):  # of Streamlit's file
            del headers[name]
        headers["content-security-policy"] = policy_of(page)
        headers["content-length"] = f"{len(page)}"
        await send(start)
        await send({"type": "http.response.body", "body": page})

    return complete


def _is_page(headers: Headers) -> bool:
    attachment = headers.get("content-disposition", "").startswith("attachment")
    return headers.get("content-type", "").startswith("text/html") and not attachment
