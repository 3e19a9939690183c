"""The menu, page addresses, pages that fit a model, and the logo."""

from base64 import b64encode
from collections.abc import Mapping
from copy import copy
from functools import cache
from pathlib import Path

import streamlit as st

from figures.labels import KIND_NAMES, plain
from transformer.types import AttentionKind
from ui.core import url_state
from ui.core.examples import examples_for
from ui.core.glossary import EXPLANATIONS
from ui.core.view import CHECKPOINT, View, current_entries
from ui.core.widgets import draw_explanation, draw_text, filled
from ui.frame.page import (
    DOORS,
    Entry,
    Page,
    all_pages,
    entries_of,
    link_to,
    of_pages,
    open_page,
    streamlit_page,
)
from ui.frame.steering import use_checkpoint
from ui.frame.through_time import draw_switch
from ui.platform.session import StreamlitPage
from ui.work.desk import get_tracer

_LOGO = Path(__file__).parent / "logo"

#: Session key: the toy's name, and the model that it replaced.
_BEFORE_TOY = "headlight_before_toy"


def why_not(view: View, page: Page) -> str | None:
    """Return why a page cannot show the view's model, or None.

    Ends the run with a message if the model cannot be loaded, see `ui.work.desk.get_tracer`.
    """
    if view.kind == "checkpoint" or not (page.needs or page.maps):
        return None
    tracer = get_tracer(view)
    missing = [kind for kind in page.maps if kind not in tracer.kinds]
    if missing:
        return (
            f"This page needs {_listed(missing)}, and {tracer.name} has only "
            f"{_listed(tracer.kinds)}."
        )
    reasons = (tracer.lacks(ability) for ability in page.needs)
    return next((reason for reason in reasons if reason is not None), None)


def draw_not_offered(view: View, page: Page, why: str) -> None:
    """Draw the page's title, the reason, and links to pages that fit the model."""
    st.header(page.title)
    st.info(plain(why), icon=page.icon)
    st.markdown(f"These pages work with **{plain(view.title)}**:")
    with st.container(key="offered", gap="xsmall"):
        for other in all_pages():
            if why_not(view, other) is None:
                link_to(other.path)
    st.caption("Or choose another model on the left.")


def _listed(kinds: tuple[AttentionKind, ...] | list[AttentionKind]) -> str:
    return " and ".join(KIND_NAMES[kind].lower() for kind in kinds)


def menu(on: Page) -> dict[str, StreamlitPage]:
    """Return the pages by address; the header shows one page per door, under the door's name.

    The door of the page `on` shows that page, other doors their first page.
    """
    opened = place_of(on)[0]
    doors = {
        (on if door == opened else next(iter(entries_of(door).values()))[0]).path: door
        for door in DOORS
    }
    last = len(DOORS)
    ordered = sorted(
        all_pages(), key=lambda page: DOORS.index(doors[page.path]) if page.path in doors else last
    )
    return {page.path: copy(streamlit_page(page, doors.get(page.path, ""))) for page in ordered}


def place_of(on: Page) -> tuple[str, str, Entry | None]:
    """Return a page's door, display name and entry for its settings, or ("", "", None)."""
    places = [
        (door, name, entry)
        for door in DOORS
        for name, (page, entry) in entries_of(door).items()
        if page is on
    ]
    now = url_state.everything().items()

    def fit(place: tuple[str, str, Entry]) -> tuple[bool, int]:
        settings = place[2].settings.items()
        return settings <= now, len(settings & now)

    return max(places, key=fit, default=("", "", None))


def view_beside(on: Page, by: int) -> tuple[str, Mapping[str, str]]:
    """Return the address and settings of the view `by` places further on in the menu."""
    views = [(page, entry) for page in all_pages() for entry in page.entries or (None,)]
    page, entry = views[(views.index((on, place_of(on)[2])) + by) % len(views)]
    return page.path, entry.settings if entry else {}


def draw_door(on: Page, view: View) -> None:
    """Draw the entries of the current door, the explanation, and on phones the sentence."""
    door, here, entry = place_of(on)
    _draw_undo(view)
    with st.container(key="door", horizontal=True, vertical_alignment="center", gap="small"):
        if door:

            def take(name: str) -> None:
                page, entry = entries_of(door)[name]
                open_page(page.path, entry.settings)

            st.segmented_control(
                "Pages", list(entries_of(door)), required=True, wrap=True,
                label_visibility="collapsed", **filled("door_entry", here, take),
            )  # fmt: skip
        if door == "Experiments":
            draw_switch(view.entry, "door_time", then=lambda: open_page(values={"view": "steps"}))
        elif door == "Beyond translation":
            _draw_toy()
        st.space("stretch")
        explanation = on.help or EXPLANATIONS.get((entry and entry.help) or on.path)
        if explanation is not None:
            with st.container(width="content"):
                draw_explanation(explanation, *on.notes())
    if on.model == "needed" and on is not all_pages()[0] and view.sentence:
        with st.container(key="on_phone"):
            draw_text(view.sentence, view.spoken[0])


def _draw_undo(view: View) -> None:
    """Offer the model that the toy replaced, with its sentence."""
    toy, before = st.session_state.get(_BEFORE_TOY, ("", ""))
    if before and toy == view.checkpoint != before:
        st.sidebar.button(
            "Undo: back to the model before", icon=":material/undo:", type="tertiary",
            key="undo_toy", on_click=use_checkpoint, args=(before,),
        )  # fmt: skip


def _draw_toy() -> None:
    def take(name: str) -> None:
        st.session_state[_BEFORE_TOY] = name, url_state.get(CHECKPOINT)
        use_checkpoint(name)
        open_page()

    for entry in current_entries():
        if entry.ok and examples_for(entry.name, entry.metrics).kind == "letters":
            st.button(
                "The reverse toy", icon=":material/swap_horiz:", type="tertiary", key="door_toy",
                on_click=take, args=(entry.name,),
                help="A two-layer model that reverses letters: small enough to understand. It "
                "replaces model and sentence on all pages; the sidebar's Undo brings them back.",
            )  # fmt: skip
            return


def other_addresses() -> dict[str, tuple[StreamlitPage, Page]]:
    """Return hidden pages by address, with the pages they lead to.

    Streamlit serves the default page at the root only; visitors also try titles and file names.
    """
    return {path: (copy(hidden), page) for path, (hidden, page) in _aliases().items()}


@of_pages
def _aliases() -> dict[str, tuple[StreamlitPage, Page]]:
    pages = all_pages()
    titles = {page.title.lower().replace(" ", "-"): page for page in pages}
    paths = {page.path for page in pages}
    meant = {Path(page.file).stem: page for page in pages} | {pages[0].path: pages[0]}
    meant |= {path: page for path, page in titles.items() if path not in paths}
    meant |= {other: page for page in pages for other in page.aliases}
    return {
        path: (st.Page(lambda: None, title=page.title, url_path=path, visibility="hidden"), page)
        for path, page in meant.items()
    }


@cache
def picture(name: str) -> str:
    """Return a logo file as a `data:` URI."""
    code = b64encode((_LOGO / f"{name}.svg").read_bytes()).decode()
    return f"data:image/svg+xml;base64,{code}"
