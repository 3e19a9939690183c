"""Token text as labels: never markup, nothing invisible, short enough to draw.

Tokens are untrusted. They may hold `<script>`, `<b>`, `$x$`, line breaks, characters that turn the
direction of the text around, or hundreds of letters. `show_token` gives plain text for
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
    """A token as plain, visible text of at most `limit` characters (plus invisible isolates).

    Control and direction characters become symbols or code points, an empty token becomes "∅", a
    long one loses its middle, and a right-to-left one is wrapped so that it stays in its place.
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
    """`show_token`, escaped for Plotly, which reads tags, entities, and `$...$` as formatting."""
    return escape_plotly(show_token(token, limit))


def escape_plotly(text: str) -> str:
    """Plain text for any Plotly string: it is shown as it is."""
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
