"""Token text as labels: no markup, nothing invisible, short enough to draw.

Tokens are untrusted. They may hold `<script>`, `<b>`, `$x$`, line breaks, characters that reverse
the direction of text, or hundreds of letters. `show_token` returns plain text for
`textContent` and canvas; `plotly_token` also escapes what Plotly would read as formatting.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

_NAMED = {"\n": "↵", "\r": "␍", "\t": "⇥", "\u00a0": "⍽"}
_ISOLATE, _POP = "\u2068", "\u2069"  # keep a right-to-left token from reordering its neighbours
_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})


@lru_cache(maxsize=16_384)
def show_token(token: str, limit: int = 24) -> str:
    """Return a token as visible plain text of at most `limit` characters, plus any isolates.

    Control and direction characters become symbols or code points, an empty token becomes "∅", a
    long one loses its middle, and a right-to-left one is isolated so that it stays in place.
    """
    visible = "".join(_visible(character) for character in token) or "∅"
    if visible.isspace():
        visible = "␣" * len(visible)
    if len(visible) > limit:
        head = (limit - 1 + 1) // 2
        visible = visible[:head] + "…" + visible[len(visible) - (limit - 1 - head) :]
    if any(unicodedata.bidirectional(character) in _RIGHT_TO_LEFT for character in visible):
        return f"{_ISOLATE}{visible}{_POP}"
    return visible


def plotly_token(token: str, limit: int = 24) -> str:
    """Return `show_token` escaped for Plotly, which parses tags, entities, and `$...$`."""
    return escape_plotly(show_token(token, limit))


def escape_plotly(text: str) -> str:
    """Escape text so that Plotly shows it unchanged."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace("$", "&#36;")


def _visible(character: str) -> str:
    if character in _NAMED:
        return _NAMED[character]
    category = unicodedata.category(character)
    if category == "Cc" and ord(character) < 32:
        return chr(0x2400 + ord(character))
    if (
        category in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") and character != "\u200d"
    ):  # keep emoji joined
        return f"[U+{ord(character):04X}]"
    return character
