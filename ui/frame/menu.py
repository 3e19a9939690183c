"""Streamlit's pages, other addresses that lead to them, and the logo."""

from __future__ import annotations

from base64 import b64encode
from copy import copy
from functools import cache
from pathlib import Path

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from ui.frame.pages import PAGES, PageSpec

_HOME = PAGES[0]
_LOGO = Path(__file__).parent / "logo"


def menu() -> dict[str, StreamlitPage]:
    """Return the pages by their address, in the order of the menu."""
    return {path: copy(page) for path, page in _pages().items()}


def other_addresses() -> dict[str, tuple[StreamlitPage, PageSpec]]:
    """Return hidden pages by their address, each with the page that is meant.

    Streamlit serves the default page at the root only, and may serve files by their names; people
    try a page's title.
    """
    return {path: (copy(page), spec) for path, (page, spec) in _aliases().items()}


# A run marks its pages, so each run has copies; making them anew would look at every page's file.
@cache
def _pages() -> dict[str, StreamlitPage]:
    return {
        spec.url_path: st.Page(
            spec.file,
            title=spec.title,
            url_path="home" if spec is _HOME else spec.url_path,
            default=spec is _HOME,
        )
        for spec in PAGES
    }


@cache
def _aliases() -> dict[str, tuple[StreamlitPage, PageSpec]]:
    meant = {_HOME.url_path: _HOME} | {Path(spec.file).stem: spec for spec in PAGES}
    titles = {spec.title.lower().replace(" ", "-"): spec for spec in PAGES}
    known = {spec.url_path for spec in PAGES}
    meant |= {path: spec for path, spec in titles.items() if path not in known}
    return {
        path: (st.Page(lambda: None, title=spec.title, url_path=path, visibility="hidden"), spec)
        for path, spec in meant.items()
    }


@cache
def picture(name: str) -> str:
    """Return an SVG file of the logo as a `data:` URI, which Streamlit would make in every run."""
    code = b64encode((_LOGO / f"{name}.svg").read_bytes()).decode()
    return f"data:image/svg+xml;base64,{code}"
