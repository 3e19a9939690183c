"""Text from users and models, made safe to hand to Streamlit's Markdown.

Streamlit formats Markdown in most places that take text: `*`, `$`, `:red[...]`, `:material/x:`,
emoji codes, links. A sentence must come out as it was typed.
"""

from __future__ import annotations

import re

#: Every ASCII punctuation mark can be escaped in CommonMark.
_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")

#: Breaks what would be read as one, and is invisible.
JOINER = "\u2060"

_EMOJI_CODE = re.compile(r":(?=[\w+-]+:)")

#: Where a bare address is taken for a link: `https://x.y`, `www.x.y`, `a@x.y`.
_ADDRESS = re.compile(r"(?=://)|(?<=www)(?=\.)|(?<=@)(?=[\w-])", re.IGNORECASE)


def plain(text: str) -> str:
    """Markdown that shows `text` itself, on one line.

    Emoji codes and bare addresses are looked for after escapes are resolved, so an invisible word
    joiner goes into what could be one; use `st.text` where text is to be copied.
    """
    line = _EMOJI_CODE.sub(f":{JOINER}", " ".join(text.split()))
    line = _ADDRESS.sub(JOINER, line)
    return _PUNCTUATION.sub(r"\\\1", line)


def code(text: str, limit: int = 60) -> str:
    """A Markdown code span that shows `text` itself; longer texts end in an ellipsis."""
    line = shorten(" ".join(text.split()), limit)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    # A space keeps a backtick at either end apart from the fence; Markdown takes it off again.
    pad = " " if line.startswith("`") or line.endswith("`") or not line else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def shorten(text: str, limit: int) -> str:
    """At most `limit` characters of `text`, the last one an ellipsis where some are left out."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"
