"""The pages of the app, the models each can show, the addresses that lead to them, and the logo.

Until app.py has run once on a server, Streamlit takes the files in `pages/` for the pages. A URL
that is a file's name then runs the file alone, without the frame, so each page begins with
`require_frame()`. A page's own URL is unknown at that time, and Streamlit opens a dialog that says
so before app.py shows the page; `start_again` removes it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import streamlit as st
from streamlit.navigation.page import StreamlitPage
from streamlit.runtime.pages_manager import PagesManager

from figures.labels import KIND_NAMES, plain
from transformer.trace.tracer import Ability
from transformer.types import AttentionKind
from ui.core import url_state
from ui.core.examples import examples_for
from ui.core.url_state import Param
from ui.core.view import View, current_entries
from ui.core.widgets import filled, keep_aside
from ui.frame.steering import use_checkpoint
from ui.frame.through_time import draw_switch
from ui.work.desk import get_tracer


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
    st.markdown(f"These pages work with **{plain(view.title)}**:")
    with st.container(key="offered", gap="xsmall"):
        for each in PAGES:
            if why_not(view, each) is None:
                st.page_link(each.file, label=each.title, icon=each.icon)
    st.caption("Or choose another model on the left.")


def _listed(kinds: tuple[AttentionKind, ...] | list[AttentionKind]) -> str:
    return " and ".join(KIND_NAMES[kind].lower() for kind in kinds)


_STARTED = "headlight_started"
_ASKED = "headlight_page_asked"
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

#: In the order of the doors, and of the keys that turn pages.
PAGES: tuple[PageSpec, ...] = (
    PageSpec("translate", "Translate", ":material/translate:", maps=("decoder_self", "cross")),
    PageSpec("beam", "How it chose", ":material/account_tree:", ("search",)),
    PageSpec("attention", "Attention", ":material/grid_view:"),
    PageSpec("head", "Inside a head", ":material/center_focus_strong:", ("heads",)),
    PageSpec("heads", "What heads do", ":material/query_stats:"),
    PageSpec("floor", "Floor plan", ":material/floor:", ("internals",)),
    PageSpec("tokens", "Tokens", ":material/segment:", ("vocabulary",)),
    PageSpec("positions", "Positions", ":material/waves:", model="shown"),
    PageSpec("removals", "Heads off", ":material/content_cut:", ("internals",)),
    PageSpec("compare", "Compare", ":material/compare:"),
    PageSpec("training", "Train a toy", ":material/model_training:", model="absent"),
    PageSpec("family", "Family", ":material/family_history:", model="shown"),
    PageSpec("parsing", "Parsing", ":material/schema:", ("internals",)),
    PageSpec("tours", "Tours", ":material/tour:", _OF_TOURS, model="absent"),
    PageSpec("glossary", "Glossary", ":material/menu_book:", model="absent"),
    PageSpec("complexity", "Cost", ":material/speed:", model="absent"),
    PageSpec("models", "Models", ":material/deployed_code:", model="absent"),
)

#: The menu: six intentions, each with its pages, or views of a page, and the settings that these
#: stand for, as in the URL. A page in its default state is the first of its entries. Models has no
#: door: it is behind the model's box.
DOORS: dict[str, dict[str, tuple[str, dict[str, str]]]] = {
    "Translate": {
        "Step by step": ("translate", {"view": "steps"}),
        "Layer by layer": ("translate", {"view": "layers"}),
        "Why X, not Y": ("translate", {"view": "why"}),
        "How it chose": ("beam", {}),
    },
    "Attention": {
        "All heads": ("attention", {"display": "grid"}),
        "Word links": ("attention", {"display": "heads", "units": "words"}),
        "Matrix": ("attention", {"display": "matrix"}),
        "Inside a head": ("head", {}),
        "What heads do": ("heads", {}),
    },
    "The whole model": {
        "Floor plan": ("floor", {}), "Tokens": ("tokens", {}), "Positions": ("positions", {}),
    },
    "Experiments": {
        "Heads off": ("removals", {}),
        "Compare": ("compare", {}),
        "Train a toy": ("training", {"training_view": "toy"}),
        "Watch a run": ("training", {"training_view": "watch"}),
    },
    "Beyond translation": {
        "GPT and BERT": ("family", {"part": "expects"}),
        "One stack or two": ("family", {"part": "stacks"}),
        "T5, and what changed": ("family", {"part": "changes"}),
        "Parsing": ("parsing", {}),
    },
    "Lessons": {
        "Tours": ("tours", {}),
        "Glossary": ("glossary", {}),
        "Table 1: cost": ("complexity", {}),
        "Table 3: variations": ("training", {"training_view": "table3"}),
    },
}  # fmt: skip


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


def menu(on: PageSpec) -> dict[str, StreamlitPage]:
    """Return the pages by their address; the header shows one page of each door, under its name.

    It is `on` where that is behind the door, so that its door is marked, else the door's first.
    """
    opened = _place_of(on)[0]
    doors = {
        on.url_path if door == opened else next(iter(entries.values()))[0]: door
        for door, entries in DOORS.items()
    }
    return {spec.url_path: copy(_page(spec, doors.get(spec.url_path, ""))) for spec in PAGES}


def _place_of(on: PageSpec) -> tuple[str, str]:
    """Return the door and the entry of a page as its settings are now, "" without a door."""
    found = [
        (door, entry, values)
        for door, entries in DOORS.items()
        for entry, (path, values) in entries.items()
        if path == on.url_path
    ]
    for door, entry, values in found:
        name, value = next(iter(values.items()), ("", ""))
        if url_state.get(Param(name, str, "")) == value:
            return door, entry
    return found[0][:2] if found else ("", "")


def draw_door(on: PageSpec, view: View) -> None:
    """Draw what is behind the door of the page `on`, and for phones the sentence."""
    door, here = _place_of(on)
    with st.container(key="door", horizontal=True, vertical_alignment="center", gap="small"):
        if door:
            st.segmented_control(
                "Pages", list(DOORS[door]), required=True, wrap=True, label_visibility="collapsed",
                **filled("door_entry", here, lambda entry: open_page(*DOORS[door][entry])),
            )  # fmt: skip
        if door == "Experiments":
            draw_switch(view.entry, "door_time", then=open_page)
        elif door == "Beyond translation":
            _draw_toy()
        st.space("stretch")
        keep_aside(st.container(width="content"))
    if on.model == "needed" and on is not PAGES[0] and view.sentence:
        with st.container(key="on_phone"):
            st.text(view.sentence)


def _draw_toy() -> None:
    def take(name: str) -> None:
        use_checkpoint(name)
        open_page()

    for entry in current_entries():
        if entry.ok and examples_for(entry.name, entry.metrics).kind == "letters":
            st.button(
                "The reverse toy", icon=":material/swap_horiz:", type="tertiary", key="door_toy",
                on_click=take, args=(entry.name,),
                help="A model with two layers that reverses letters: small enough to understand.",
            )  # fmt: skip
            return


def open_page(
    path: str = PAGES[0].url_path, values: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Have the next run show a page with these settings. A callback."""
    url_state.bring(values)
    st.session_state[_ASKED] = path, dict(values)


def leaves() -> bool:
    """Return whether the next run shows another page: a fragment then has to rerun the app."""
    return _ASKED in st.session_state


def asked_for_page() -> tuple[str, dict[str, str]]:
    """Return and forget the address and settings given to `open_page`; "" for none."""
    asked: tuple[str, dict[str, str]] = st.session_state.pop(_ASKED, ("", {}))
    return asked


def other_addresses() -> dict[str, tuple[StreamlitPage, PageSpec]]:
    """Return hidden pages by their address, each with the page that is meant.

    Streamlit serves the default page at the root only, and may serve files by their names; people
    try a page's title.
    """
    return {path: (copy(page), spec) for path, (page, spec) in _aliases().items()}


# A run marks its pages, so each run has copies; making them anew would look at every page's file.
@cache
def _page(spec: PageSpec, door: str) -> StreamlitPage:
    return st.Page(
        spec.file,
        title=door or spec.title,
        url_path="home" if spec is PAGES[0] else spec.url_path,
        default=spec is PAGES[0],
        visibility="visible" if door else "hidden",
    )


@cache
def _aliases() -> dict[str, tuple[StreamlitPage, PageSpec]]:
    meant = {PAGES[0].url_path: PAGES[0]} | {Path(spec.file).stem: spec for spec in PAGES}
    titles = {spec.title.lower().replace(" ", "-"): spec for spec in PAGES}
    titles["beam-search"] = next(spec for spec in PAGES if spec.url_path == "beam")
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
