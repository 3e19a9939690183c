"""Escape text from users and models for Streamlit's Markdown.

Streamlit formats Markdown in most places that take text: `*`, `$`, `:red[...]`, `:material/x:`,
emoji codes, links. A sentence must be shown as it was typed.
"""

from __future__ import annotations

import re

#: Every ASCII punctuation mark can be escaped in CommonMark.
_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")

#: Word joiner: invisible, and splits what would be parsed as one unit.
JOINER = "\u2060"

_EMOJI_CODE = re.compile(r":(?=[\w+-]+:)")

#: Positions at which a bare address would become a link: `https://x.y`, `www.x.y`, `a@x.y`.
_ADDRESS = re.compile(r"(?=://)|(?<=www)(?=\.)|(?<=@)(?=[\w-])", re.IGNORECASE)


def plain(text: str) -> str:
    """Return Markdown that shows `text` literally, on one line.

    Emoji codes and bare addresses are parsed after escapes are resolved, so an invisible word
    joiner is put into anything that could be one; use `st.text` for text to be copied.
    """
    line = _EMOJI_CODE.sub(f":{JOINER}", " ".join(text.split()))
    line = _ADDRESS.sub(JOINER, line)
    return _PUNCTUATION.sub(r"\\\1", line)


def code(text: str, limit: int = 60) -> str:
    """Return a Markdown code span that shows `text` literally; longer texts end in an ellipsis."""
    line = shorten(" ".join(text.split()), limit)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    # A space separates a backtick at either end from the fence; Markdown strips it again.
    pad = " " if line.startswith("`") or line.endswith("`") or not line else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def shorten(text: str, limit: int) -> str:
    """Return at most `limit` characters of `text`, the last an ellipsis if it is shortened."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"
