"""The pages of the app, and the redirect for a page that was opened without it.

Until app.py has run once on a server, Streamlit takes the files in `pages/` for the pages. A URL
that is a file's name then runs the file alone, without the frame, so each page begins with
`require_frame()`. A page's own URL is unknown at that time, and Streamlit opens a dialog that says
so before app.py shows the page; `start_again` removes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import streamlit as st
from streamlit.runtime.pages_manager import PagesManager

from transformer.trace.tracer import Ability
from transformer.types import AttentionKind

_STARTED = "headlight_started"

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
    """One page of the app.

    Attributes:
        file: relative to app.py.
        url_path: its path in the URL; not the file's stem, which Streamlit serves by itself.
        title, icon: in the navigation.
        needs_model: whether there is nothing to see without a checkpoint.
        shows_model: whether the chosen checkpoint is on screen, and with it its training.
        needs: abilities that the model must have; if one is missing, the frame says why.
        maps: kinds of attention that its traces must contain.
    """

    file: str
    url_path: str
    title: str
    icon: str
    needs_model: bool = True
    shows_model: bool = True
    needs: tuple[Ability, ...] = ()
    maps: tuple[AttentionKind, ...] = ()


#: In the order of the header, which fits all titles into 1280 px, and of the keys that turn pages:
#: from the whole model to its parts, then several models, then words.
PAGES: tuple[PageSpec, ...] = (
    PageSpec(
        "pages/translate_page.py", "translate", "Translate", ":material/translate:",
        maps=("decoder_self", "cross"),
    ),
    PageSpec(
        "pages/beam_page.py", "beam", "Beam search", ":material/account_tree:", needs=("search",)
    ),
    PageSpec("pages/attention_page.py", "attention", "Attention", ":material/grid_view:"),
    PageSpec(
        "pages/head_page.py", "head", "Inside a head", ":material/center_focus_strong:",
        needs=("heads",),
    ),
    PageSpec(
        "pages/floor_page.py", "floor", "Floor plan", ":material/floor:", needs=("internals",)
    ),
    PageSpec(
        "pages/parsing_page.py", "parsing", "Parsing", ":material/schema:", needs=("internals",)
    ),
    PageSpec(
        "pages/tokens_page.py", "tokens", "Tokens", ":material/content_cut:",
        needs=("vocabulary",),
    ),
    PageSpec(
        "pages/positions_page.py", "positions", "Positions", ":material/waves:", needs_model=False
    ),
    PageSpec(
        "pages/complexity_page.py", "complexity", "Cost", ":material/speed:",
        needs_model=False, shows_model=False,
    ),
    PageSpec("pages/compare_page.py", "compare", "Compare", ":material/compare:"),
    PageSpec(
        "pages/family_page.py", "family", "Family", ":material/family_history:", needs_model=False
    ),
    PageSpec(
        "pages/models_page.py", "models", "Models", ":material/deployed_code:",
        needs_model=False, shows_model=False,
    ),
    PageSpec(
        "pages/training_page.py", "training", "Training", ":material/model_training:",
        needs_model=False, shows_model=False,
    ),
    PageSpec(
        "pages/tours_page.py", "tours", "Tours", ":material/tour:",
        needs_model=False, shows_model=False,
        needs=("any_sentence", "search", "internals"),
    ),
    PageSpec(
        "pages/glossary_page.py", "glossary", "Glossary", ":material/menu_book:",
        needs_model=False, shows_model=False,
    ),
)  # fmt: skip


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
