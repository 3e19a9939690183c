"""The server around Streamlit: base URL in every page, pages known from the start, libraries loaded
before the first visit.

A browser that opens `/attention` must find out whether the app is at `/` or at `/attention/`.
Streamlit's client asks for the server's health at both, and the wrong one is a 404 and an error in
the console on every first visit. The server knows the depth of the URL, so it writes the base into
the page.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

from streamlit import config
from streamlit.runtime.pages_manager import PagesManager

from ui.frame.import_access import invitation

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Asgi = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

#: Cut from the end, since a proxy may put more in front of the path than the server sees.
_SCRIPT = """<script>
{{
  const parts = location.pathname.split("/").filter(Boolean);
  const base = parts.slice(0, Math.max(0, parts.length - {depth})).join("/");
  const known = {{ BACKEND_BASE_URL: `${{location.origin}}/${{base}}` }};
  window.__streamlit = {{ ...window.__streamlit, ...known }};
}}
</script>"""

#: Request headers with which the answer would not be the whole page as text.
_CONDITIONAL = (b"accept-encoding", b"if-none-match", b"if-modified-since", b"range")


def depth_of(path: str, base: str = "") -> int:
    """Return how many segments of a request's path name a page; 0 for the app's root and files."""
    parts = [part for part in path.split("/") if part]
    start = [part for part in base.split("/") if part]
    below = parts[len(start) :] if parts[: len(start)] == start else parts
    if not below or "." in below[-1] or below[0].startswith("_"):
        return 0
    return len(below)


class KnownBase:
    """ASGI middleware that writes the app's base URL into its pages."""

    def __init__(self, app: Asgi) -> None:
        self.app = app

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Rewrite pages below the app's root; pass everything else on."""
        depth = 0
        if scope["type"] == "http" and scope["method"] == "GET":
            depth = depth_of(scope["path"], config.get_option("server.baseUrlPath") or "")
        if not depth:
            await self.app(scope, receive, send)
            return
        plain = [pair for pair in scope["headers"] if pair[0].lower() not in _CONDITIONAL]
        start: Message = {}
        body = bytearray()

        async def rewrite(message: Message) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
                return
            body.extend(message.get("body", b""))
            if message.get("more_body"):
                return
            whole = bytes(body)
            if _header(start, b"content-type").startswith(b"text/html"):
                script = _SCRIPT.format(depth=depth).encode()
                whole = whole.replace(b"<head>", b"<head>" + script, 1)
                kept = (b"content-length", b"etag", b"last-modified")
                headers = [pair for pair in start["headers"] if pair[0].lower() not in kept]
                start["headers"] = [*headers, (b"content-length", str(len(whole)).encode())]
            await send(start)
            await send({"type": "http.response.body", "body": whole})

        await self.app({**scope, "headers": plain}, receive, rewrite)


#: Set when the libraries that pages import are loaded.
libraries = threading.Event()

#: Modules that take seconds to import and do not use Streamlit, the most needed first.
_SLOW = ("transformer.translator", "altair")


@asynccontextmanager
async def begin(app: Any) -> AsyncIterator[None]:
    """Serve every URL by app.py from the start, not by the files in `pages/`.

    The slow libraries are imported meanwhile; earlier visitors wait for the same import. The
    link that allows imports is printed.
    """
    PagesManager.uses_pages_directory = False
    threading.Thread(target=_warm_up, name="warm-up", daemon=True).start()
    if (line := invitation()) is not None:
        print(line, flush=True)  # noqa: T201 - for the person at the terminal
    yield


def _warm_up() -> None:
    for name in _SLOW:
        importlib.import_module(name)


def _header(start: Message, name: bytes) -> bytes:
    found = (value for key, value in start.get("headers", ()) if key.lower() == name)
    return bytes(next(found, b""))
