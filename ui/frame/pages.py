"""The pages of the app, the models each can show, the addresses that lead to them, and the logo.

Until app.py has run once on a server, Streamlit takes the files in `pages/` for the pages. A URL
that is a file's name then runs the file alone, without the frame, so each page begins with
`require_frame()`. A page's own URL is unknown at that time, and Streamlit opens a dialog that says
so before app.py shows the page; `start_again` removes it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import streamlit as st
from streamlit.navigation.page import StreamlitPage
from streamlit.runtime.pages_manager import PagesManager

from figures.labels import KIND_NAMES, code, plain
from transformer.trace.tracer import Ability
from transformer.types import AttentionKind
from ui.core.view import View
from ui.work.cache import get_tracer


def why_not(view: View, spec: PageSpec) -> str | None:
    """Return the reason why a page cannot show the view's model; None if it can.

    If the model cannot be loaded, the page says so and the run ends: see
    `ui.work.cache.get_tracer`.
    """
    if view.kind == "checkpoint" or not (spec.needs or spec.maps):
        return None
    tracer = get_tracer(view)
    missing = [kind for kind in spec.maps if kind not in tracer.kinds]
    if missing:
        return (
            f"This page needs {_listed(missing)}, and {tracer.name} has only "
            f"{_listed(tracer.kinds)}."
        )
    reasons = (tracer.lacks(ability) for ability in spec.needs)
    return next((reason for reason in reasons if reason is not None), None)


def draw_not_offered(view: View, spec: PageSpec, why: str) -> None:
    """Draw the page's title, why it does not work, and the pages that do."""
    st.header(spec.title)
    st.info(plain(why), icon=spec.icon)
    st.markdown(f"These pages work with {code(view.checkpoint)}:")
    with st.container(key="offered", gap="xsmall"):
        for each in PAGES:
            if why_not(view, each) is None:
                st.page_link(each.file, label=each.title, icon=each.icon)
    st.caption("Or choose another checkpoint on the left.")


def _listed(kinds: tuple[AttentionKind, ...] | list[AttentionKind]) -> str:
    return " and ".join(KIND_NAMES[kind].lower() for kind in kinds)


_STARTED = "headlight_started"
_LOGO = Path(__file__).parent / "logo"

_reload = st.components.v2.component(
    "headlight_start_again",
    js="""export default function () {
        if (sessionStorage.getItem("headlight-started")) return;
        sessionStorage.setItem("headlight-started", "again");
        location.reload();
    }""",
)

_inside: ContextVar[bool] = ContextVar("headlight_frame", default=False)


@dataclass(frozen=True)
class PageSpec:
    """One page of the app."""

    url_path: str  # its path in the URL; not the file's stem, which Streamlit serves by itself
    #: title, icon: in the navigation
    title: str
    icon: str
    #: abilities that the model must have; if one is missing, the frame says why
    needs: tuple[Ability, ...] = ()
    maps: tuple[AttentionKind, ...] = ()  # kinds of attention that its traces must contain
    #: whether the chosen checkpoint is needed, only shown where there is one (and with it its
    #: training), or absent
    model: Literal["needed", "shown", "absent"] = "needed"

    @property
    def file(self) -> str:
        """The file, relative to app.py."""
        return f"pages/{self.url_path}_page.py"


_OF_TOURS: tuple[Ability, ...] = ("any_sentence", "search", "internals")

#: In the order of the header, which fits all titles into 1280 px, and of the keys that turn pages:
#: from the whole model to its parts, then several models, then words.
PAGES: tuple[PageSpec, ...] = (
    PageSpec("translate", "Translate", ":material/translate:", maps=("decoder_self", "cross")),
    PageSpec("beam", "Beam search", ":material/account_tree:", ("search",)),
    PageSpec("attention", "Attention", ":material/grid_view:"),
    PageSpec("head", "Inside a head", ":material/center_focus_strong:", ("heads",)),
    PageSpec("floor", "Floor plan", ":material/floor:", ("internals",)),
    PageSpec("parsing", "Parsing", ":material/schema:", ("internals",)),
    PageSpec("tokens", "Tokens", ":material/content_cut:", ("vocabulary",)),
    PageSpec("positions", "Positions", ":material/waves:", model="shown"),
    PageSpec("complexity", "Cost", ":material/speed:", model="absent"),
    PageSpec("compare", "Compare", ":material/compare:"),
    PageSpec("family", "Family", ":material/family_history:", model="shown"),
    PageSpec("models", "Models", ":material/deployed_code:", model="absent"),
    PageSpec("training", "Training", ":material/model_training:", model="absent"),
    PageSpec("tours", "Tours", ":material/tour:", _OF_TOURS, model="absent"),
    PageSpec("glossary", "Glossary", ":material/menu_book:", model="absent"),
)


@contextmanager
def frame() -> Iterator[None]:
    """Mark that the frame runs the page."""
    token = _inside.set(True)
    try:
        yield
    finally:
        _inside.reset(token)


def require_frame() -> None:
    """Switch to the app if this page was opened without it."""
    if not _inside.get():
        st.switch_page("app.py", query_params=st.query_params.to_dict())


def opened_by_file_names() -> bool:
    """Return whether this is a session's first run, and Streamlit took it from `pages/`.

    Call it before `st.navigation`, after which Streamlit knows the pages of app.py.
    """
    first = _STARTED not in st.session_state
    st.session_state[_STARTED] = True
    return first and bool(PagesManager.uses_pages_directory)


def start_again() -> None:
    """Reload the page in the browser once, now that the server knows the URLs."""
    _reload(key="start_again")


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
            url_path="home" if spec is PAGES[0] else spec.url_path,
            default=spec is PAGES[0],
        )
        for spec in PAGES
    }


@cache
def _aliases() -> dict[str, tuple[StreamlitPage, PageSpec]]:
    meant = {PAGES[0].url_path: PAGES[0]} | {Path(spec.file).stem: spec for spec in PAGES}
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
