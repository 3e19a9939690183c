"""Links to the glossary in a page's texts."""

from __future__ import annotations

import re
from urllib.parse import unquote

from streamlit.testing.v1 import AppTest

_LINK = re.compile(r'\[([^\]]+)\]\(glossary\?word=([^ )"]+)(?: "[^"]*")?\)')


def unlinked(text: str) -> str:
    """Return a text without its links to the glossary."""
    return _LINK.sub(r"\1", text)


def said(app: AppTest) -> str:
    """Return the page's Markdown and captions without links to the glossary."""
    return unlinked("\n".join(each.value for each in (*app.markdown, *app.caption)))


def messages_in(app: AppTest) -> str:
    """Return all texts of the page's main part, without escapes and links to the glossary."""
    kinds = (app.main.markdown, app.main.caption, app.main.info, app.main.warning, app.main.error)
    return unlinked("\n".join(each.value.replace("\\", "") for kind in kinds for each in kind))


def entries(text: str) -> dict[str, str]:
    """Return the linked words of a text, each with its entry's name."""
    return {match[1]: unquote(match[2]) for match in _LINK.finditer(text)}
