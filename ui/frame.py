"""The pages of the app, and the way back for a page opened without it.

Streamlit also serves every file in `pages/` under its own name, and on a fresh server such an
address runs the file alone, without the frame. Each page therefore begins with `require_frame()`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import streamlit as st

_inside: ContextVar[bool] = ContextVar("headlight_frame", default=False)


@dataclass(frozen=True)
class PageSpec:
    """One page of the app.

    Attributes:
        file: relative to app.py.
        url_path: its address; differs from the file's stem, which Streamlit serves by itself.
        title, icon: in the navigation.
        needs_model: whether there is anything to see without a checkpoint.
    """

    file: str
    url_path: str
    title: str
    icon: str
    needs_model: bool = True


PAGES: tuple[PageSpec, ...] = (
    PageSpec("pages/translate_page.py", "translate", "Translate", ":material/translate:"),
    PageSpec("pages/attention_page.py", "attention", "Attention", ":material/grid_view:"),
    PageSpec(
        "pages/positions_page.py", "positions", "Positions", ":material/waves:", needs_model=False
    ),
)


@contextmanager
def frame() -> Iterator[None]:
    """The frame runs a page inside this."""
    token = _inside.set(True)
    try:
        yield
    finally:
        _inside.reset(token)


def require_frame() -> None:
    """Go to the app where this page was opened without its frame."""
    if not _inside.get():
        st.switch_page("app.py", query_params=st.query_params.to_dict())
