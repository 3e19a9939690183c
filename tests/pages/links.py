"""Links to the glossary in a page's texts."""

from __future__ import annotations

import re
from urllib.parse import unquote

_LINK = re.compile(r'\[([^\]]+)\]\(glossary\?word=([^ )"]+)(?: "[^"]*")?\)')


def unlinked(text: str) -> str:
    """Return a text without its links to the glossary."""
    return _LINK.sub(r"\1", text)


def entries(text: str) -> dict[str, str]:
    """Return the linked words of a text, each with its entry's name."""
    return {match[1]: unquote(match[2]) for match in _LINK.finditer(text)}
