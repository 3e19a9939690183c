"""Start of the server, and middleware that writes base URL and policy into every page.

A browser at `/attention` cannot know whether the app is at `/` or at `/attention/`. Streamlit's
client asks for the server's health at both; the wrong one is a 404 in the console on every first
visit. The server knows the depth of the URL and writes the base into the page. The
Content-Security-Policy allows the page's scripts by their hashes, so it is made here too.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.runtime.pages_manager import PagesManager

from ui.core.public import is_public
from ui.frame.import_access import invitation
from ui.hosting import start, state
from ui.hosting.gate import below_base, is_page
from ui.hosting.headers import policy_of

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


def depth_of(path: str) -> int:
    """Return the number of path segments that name a page; 0 for the app's root and files."""
    below = below_base(path)
    return len(below.split("/")) if below and is_page(below) else 0


class KnownBase:
    """ASGI middleware that writes the app's base URL into its pages and sets their policy."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Rewrite pages; pass everything else on."""
        if not (
            scope["type"] == "http"
            and scope["method"] == "GET"
            and is_page(below_base(scope["path"]))
        ):
            await self.app(scope, receive, send)
            return
        depth = depth_of(scope["path"])
        plain = [pair for pair in scope["headers"] if pair[0].lower() not in _CONDITIONAL]
        begun: Message = {}
        body = bytearray()

        async def rewrite(message: Message) -> None:
            if message["type"] == "http.response.start":
                begun.update(message)
                return
            body.extend(message.get("body", b""))
            if message.get("more_body"):
                return
            whole = bytes(body)
            if _header(begun, b"content-type").startswith(b"text/html"):
                if depth:
                    script = _SCRIPT.format(depth=depth).encode()
                    whole = whole.replace(b"<head>", b"<head>" + script, 1)
                kept = (b"content-length", b"etag", b"last-modified")
                headers = [pair for pair in begun["headers"] if pair[0].lower() not in kept]
                headers.append((b"content-length", str(len(whole)).encode()))
                begun["headers"] = [*headers, (b"content-security-policy", policy_of(whole))]
            await send(begun)
            await send({"type": "http.response.body", "body": whole})

        await self.app({**scope, "headers": plain}, receive, rewrite)


#: Modules that take seconds to import and do not use Streamlit, the most needed first.
_SLOW = ("transformer.translator", "altair")


@asynccontextmanager
async def begin(app: Any) -> AsyncIterator[None]:
    """Serve every URL by app.py from the start, and import slow libraries meanwhile.

    A public server also loads the first model. The link that allows imports is printed.
    """
    PagesManager.uses_pages_directory = False
    start.prepare()
    start.disable_nagle()
    threading.Thread(target=_warm_up, name="warm-up", daemon=True).start()
    if (line := invitation()) is not None:
        print(line, flush=True)  # noqa: T201 - for the person at the terminal
    yield


def _warm_up() -> None:
    for name in _SLOW:
        importlib.import_module(name)
    if is_public():
        state.libraries.set()
        _load_first_model()


def _load_first_model() -> None:
    from transformer.device import available_devices
    from transformer.errors import CheckpointError
    from ui.work.models import default_name, entries, load

    usable = {entry.name: entry for entry in entries() if entry.ok}
    name = default_name(usable)
    if not name:
        state.missing[:] = ["no checkpoint can be loaded"]
        return
    try:
        load(usable[name], available_devices()[0])
        state.missing.clear()
    except (CheckpointError, MemoryError) as error:
        state.missing[:] = [f"{name} cannot be loaded ({type(error).__name__})"]


def _header(start: Message, name: bytes) -> bytes:
    found = (value for key, value in start.get("headers", ()) if key.lower() == name)
    return bytes(next(found, b""))
