"""Texts of a page, their links to the glossary, and the messages of its components."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

from streamlit.testing.v1 import AppTest

from tests.messages import unpack

_LINK = re.compile(r'\[([^\]]+)\]\(glossary\?word=([^ )"]+)(?: "[^"]*")?\)')


def unlinked(text: str) -> str:
    """Return a text without its links to the glossary."""
    return _LINK.sub(r"\1", text)


def said(app: AppTest) -> str:
    """Return the page's Markdown and captions without links to the glossary."""
    return unlinked("\n".join(each.value for each in (*app.markdown, *app.caption)))


def messages_in(app: AppTest) -> str:
    """Return all texts of the page's main part, without escapes and links to the glossary."""
    kinds = ("markdown", "caption", "text", "warning", "error", "info", "success", "code")
    found = (each.value.replace("\\", "") for kind in kinds for each in app.main.get(kind))
    return unlinked("\n".join(found))


def messages(app: AppTest, component: str) -> list[tuple[dict[str, Any], bytes]]:
    """Return header and body of the components of a name, in the page's order."""
    shown = [each.proto for each in app.main.get("bidi_component")]
    return [unpack(each.bytes) for each in shown if each.component_name == f"headlight.{component}"]


def entries(text: str) -> dict[str, str]:
    """Return the linked words of a text, each with its entry's name."""
    return {match[1]: unquote(match[2]) for match in _LINK.finditer(text)}
