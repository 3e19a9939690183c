"""Texts, views and components of a page, and actions of a visitor."""

import re
from html import unescape
from typing import Any
from urllib.parse import unquote

from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from tests.messages import unpack
from transformer.trace.records import Trace
from ui.core.view import View
from ui.work import results

_LINK = re.compile(r'\[([^\]]+)\]\(glossary\?word=([^ )"]+)(?: "[^"]*")?\)')


_TEXT = re.compile(r'<p translate=no lang="\w*"[^>]*>(.*)</p>', re.DOTALL)


def unlinked(text: str) -> str:
    return _LINK.sub(r"\1", text)


def said(app: AppTest) -> str:
    """Return Markdown and captions on the page without glossary links."""
    return unlinked("\n".join(each.value for each in (*app.markdown, *app.caption)))


def messages_in(app: AppTest) -> str:
    """Return all texts in the page's main part, without escapes and glossary links."""
    kinds = ("markdown", "caption", "text", "warning", "error", "info", "success", "code")
    found = (each.value.replace("\\", "") for kind in kinds for each in app.main.get(kind))
    return unlinked("\n".join((*found, *written(app.main))))


def written(part: Any) -> list[str]:
    """Return the sentences and translations in a part of a page."""
    found = (_TEXT.fullmatch(each.proto.body) for each in part.get("html"))
    return [unescape(match[1].replace("<b>", "").replace("</b>", "")) for match in found if match]


def view_of(app: AppTest) -> View:
    view = app.session_state["headlight_view"]
    assert isinstance(view, View)
    return view


def trace_of(app: AppTest) -> Trace:
    found = results.CACHE.get(view_of(app).request)
    assert isinstance(found, Trace)
    return found


def ask(app: AppTest, sentence: str) -> AppTest:
    app.sidebar.text_area(key="sentence_box").set_value(sentence)
    return app.sidebar.button[0].click().run()


def go_to(app: AppTest, page: str) -> AppTest:
    app._page_hash = calc_hash(page)
    return app.run()


def press(app: AppTest, label: str) -> AppTest:
    (button,) = (each for each in app.button if label in (each.label, each.key))
    return button.click().run()


def messages(app: AppTest, component: str) -> list[tuple[dict[str, Any], bytes]]:
    shown = [each.proto for each in app.main.get("bidi_component")]
    return [unpack(each.bytes) for each in shown if each.component_name == f"headlight.{component}"]


def entries(text: str) -> dict[str, str]:
    return {match[1]: unquote(match[2]) for match in _LINK.finditer(text)}
