"""Headers that allow a page to load and run only this app.

The page's scripts are allowed by their hashes; Streamlit loads components' scripts from blobs.
Styles may be inline, since Streamlit's client writes them.
"""

import base64
import hashlib
import os
import re

from ui.core.public import is_public

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
