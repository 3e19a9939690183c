"""Headers that keep a page from running or loading anything but this app.

Scripts in the page are allowed by their hashes; those that Streamlit makes of components come from
blobs. Styles are written by Streamlit's client, so they may be inline.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re

from ui.core.public import is_public

#: Origins that may show the app in a frame, separated by spaces.
FRAMES = "HEADLIGHT_FRAMES"

#: A scheme, labels of a host joined by dots, and a port.
_ORIGIN = re.compile(
    r"https?://(\*\.)?LABEL(\.LABEL)*(:(?P<port>[1-9][0-9]{0,4}))?"
    .replace("LABEL", "[a-z0-9]([a-z0-9-]*[a-z0-9])?")
)  # fmt: skip

_INLINE = re.compile(rb"<script(?![^>]*\bsrc=)[^>]*>(.*?)</script>", re.DOTALL | re.IGNORECASE)

#: A year; browsers then refuse to open this host without encryption.
_ENCRYPTED = {"strict-transport-security": "max-age=31536000"}


def headers_of(encrypted: bool) -> dict[str, str]:
    """Return the headers of every answer to a visitor who came by https (`encrypted`) or not."""
    return {
        "x-content-type-options": "nosniff",
        "referrer-policy": "same-origin",
        "cross-origin-opener-policy": "same-origin",
        "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
        **(_ENCRYPTED if is_public() and encrypted else {}),
    }


def policy_of(page: bytes) -> str:
    """Return the Content-Security-Policy of a page, in which only its own scripts run."""
    hashes = " ".join(f"'sha256-{_hash(script)}'" for script in _INLINE.findall(page))
    rules = {
        "default-src": "'none'",
        "script-src": f"'self' blob: {hashes}".rstrip(),
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
    """Return the origins that may show the app in a frame. Raises: `ValueError`, one line."""
    origins = os.environ.get(FRAMES, "").split()
    for origin in origins:
        match = _ORIGIN.fullmatch(origin)
        if not match or int(match["port"] or 1) > 65_535:
            raise ValueError(
                f"{FRAMES}={origin[:60]!r}: must be origins such as https://example.org, "
                "separated by spaces"
            )
    return origins


def _hash(script: bytes) -> str:
    # Browsers hash the text that they parsed, in which lines end in \n.
    text = script.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return base64.b64encode(hashlib.sha256(text).digest()).decode("ascii")
