"""Pages as declarations, the `PAGE` of every pages/NAME_page.py; the menu and row made of them."""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from importlib import import_module, reload
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, ParamSpec, TypeVar, cast

import streamlit as st

from figures.exhibit import Exhibit, file_stem
from figures.labels import KIND_NAMES, plain
from transformer.trace.tracer import Ability
from transformer.types import AttentionKind
from ui.core import url_state
from ui.core.examples import examples_for
from ui.core.glossary import EXPLANATIONS, Explanation, term
from ui.core.url_state import Param
from ui.core.view import Request, Side, View, current_entries, current_view
from ui.core.widgets import Choice, coloured, draw_text, filled
from ui.export.download import download_below, figure_for
from ui.frame.beside import Beside
from ui.frame.steering import use_checkpoint
from ui.frame.through_time import draw_switch
from ui.platform.session import StreamlitPage
from ui.work.desk import fragment, get_trace, get_tracer, prepare
from ui.work.results import Computation

#: Menu groups, from left to right.
DOORS = (
    "Translate", "Attention", "The whole model", "Experiments", "Beyond translation", "Lessons",
)  # fmt: skip

_ASKED = "headlight_page_asked"

#: Page files and their modification times when they were read.
_READ: dict[Path, int] = {}
_KEPT: list[Callable[[], None]] = []

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Entry:
    """Menu entry of a page or one of its views."""

    door: str  # one of `DOORS`
    order: int  # within the door; a page's first entry is its default view
    name: str = ""  # display name, by default the page's title
    settings: Mapping[str, str] = field(default_factory=dict)  # the view's URL settings
    help: str = ""  # key in explanations.toml, by default the page's


@dataclass(frozen=True, eq=False)
class Page:
    """One page of the app."""

    path: str  # in the URL and in the file name
    #: title, icon: in the menu
    title: str
    icon: str
    #: draws a view and its trace below the frame's bars; a choice there calls it again
    draw: Callable[[Side], object] = lambda side: None
    aliases: tuple[str, ...] = ()  # other addresses
    entries: tuple[Entry, ...] = ()  # menu entries; pages without entries are linked elsewhere
    #: model abilities required; the frame names a missing one
    needs: tuple[Ability, ...] = ()
    maps: tuple[AttentionKind, ...] = ()  # attention kinds required in traces
    #: the chosen model: required, shown if there is one, or not shown
    model: Literal["needed", "shown", "absent"] = "needed"
    choice: tuple[type[Choice] | Param[Any], ...] = ()  # settings in the page's URL
    #: "What is this?", by default the entry for `path` in explanations.toml
    help: Explanation | None = None
    notes: Callable[[], tuple[str, ...]] = tuple  # further paragraphs
    #: makes the picture that `draw` shows, of a trace or model; the page offers its download, and
    #: Compare shows it for A and B
    figure: Callable[..., Exhibit] | None = None
    #: returns the computations for `draw`, which run in one job
    first: Callable[[Side], Sequence[Computation[Any] | Request]] = lambda side: ()
    #: draws the whole page, in place of `draw`
    whole: Callable[[View], None] | None = None
    beside: tuple[Beside, ...] = ()  # views in Compare

    @cached_property
    def params(self) -> tuple[Param[Any], ...]:
        """Settings in the page's URL."""
        groups = (
            (setting,) if isinstance(setting, Param) else setting.params()
            for setting in self.choice
        )
        return tuple(param for group in groups for param in group)

    @property
    def views(self) -> tuple[Beside, ...]:
        """Views in Compare."""
        if self.beside or self.figure is None:
            return self.beside
        make = self.figure
        return (Beside((self.draw,), lambda side: partial(figure_for, side.view, make)),)

    @property
    def file(self) -> str:
        """File, relative to app.py."""
        return f"pages/{self.path}_page.py"

    def show(self) -> None:
        """Draw the page."""
        view = current_view()
        if self.whole is not None:
            self.whole(view)
        else:
            self.story(view)

    def story(self, view: View) -> None:
        """Run the first computations, then draw in a fragment, which choices rerun alone."""
        # Outside the fragment, so that progress and messages replace the page.
        prepare(view, self.first(Side(view, get_trace(view))))
        _draw(self, view, _steering())


def of_pages(function: Callable[P, T]) -> Callable[P, T]:
    """Cache a function of the pages until a page file changes."""
    cached = cache(function)
    _KEPT.append(cached.cache_clear)
    return cast("Callable[P, T]", cached)


def reload_changed() -> None:
    """Reload pages whose files have changed during development."""
    for path, before in [*_READ.items()]:
        if before != (now := path.stat().st_mtime_ns):
            _READ[path] = now
            reload(import_module(f"pages.{path.stem}"))
            for forget in _KEPT:
                forget()


@of_pages
def all_pages() -> tuple[Page, ...]:
    """Return the pages in menu order; home is first."""
    files = [*(Path(__file__).parents[2] / "pages").glob("*_page.py")]
    _READ.update({file: file.stat().st_mtime_ns for file in files})
    pages = [import_module(f"pages.{file.stem}").PAGE for file in files]

    def place(page: Page) -> tuple[int, int, str]:
        doors = [(DOORS.index(entry.door), entry.order) for entry in page.entries]
        return *min(doors, default=(len(DOORS), 0)), page.path

    return tuple(sorted(pages, key=place))


@of_pages
def entries_of(door: str) -> dict[str, tuple[Page, Entry]]:
    """Return a door's pages and entries by display name."""
    entries = [
        (page, entry) for page in all_pages() for entry in page.entries if entry.door == door
    ]
    entries.sort(key=lambda one: one[1].order)
    return {entry.name or page.title: (page, entry) for page, entry in entries}


def page_at(path: str) -> Page:
    """Return the page at an address; "" is home. Raises `KeyError` for other addresses."""
    return {"": all_pages()[0], **{page.path: page for page in all_pages()}}[path]


# Streamlit changes a run's pages; `menu` copies them.
@of_pages
def streamlit_page(page: Page, title: str = "") -> StreamlitPage:
    """Return Streamlit's page; with a title it is in the header."""
    home = page is all_pages()[0]
    return st.Page(
        page.show, title=title or page.title, default=home,
        url_path="home" if home else page.path, visibility="visible" if title else "hidden",
    )  # fmt: skip


@fragment
def _draw(page: Page, view: View, steering: list[str]) -> None:
    if leaves() or steering != _steering():
        st.rerun()
    page.draw(Side(view, get_trace(view)))
    if page.figure is not None:
        download_below(st.container(), view, file_stem(page.figure.__name__), page.figure)
    url_state.write_url()


def _steering() -> list[str]:
    """Return the raw settings that change the trace."""
    settings = url_state.everything()
    return [settings.get(name, "") for name in ("prefix", "target", "edit")]


def link_to(
    path: str, label: str = "", icon: str = "", values: Mapping[Param[Any], Any] | None = None,
    help: str | None = None,
) -> None:  # fmt: skip
    """Draw a link to a page, by default with its title and icon.

    Args: values: settings to change; None drops the current settings.
    """
    page = page_at(path)
    st.page_link(
        streamlit_page(page), label=label or page.title, icon=icon or page.icon, help=help,
        query_params=None if values is None else url_state.query(values),
    )  # fmt: skip


def open_page(path: str = "", values: Mapping[str, str] = MappingProxyType({})) -> None:
    """Open a page, home by default, with these settings in the next run. A callback."""
    url_state.bring(values)
    st.session_state[_ASKED] = path or all_pages()[0].path, dict(values)


def leaves() -> bool:
    """Return True if the next run opens another page; a fragment must then rerun the app."""
    return _ASKED in st.session_state


def asked_for_page() -> tuple[str, dict[str, str]]:
    """Return and forget the address and settings passed to `open_page`, or ("", {})."""
    request: tuple[str, dict[str, str]] = st.session_state.pop(_ASKED, ("", {}))
    return request


def why_not(view: View, page: Page) -> str | None:
    """Return why a page cannot show the view's model, or None.

    Ends the run with a message if the model cannot be loaded, see `ui.work.desk.get_tracer`.
    """
    if view.kind == "checkpoint" or not (page.needs or page.maps):
        return None
    tracer = get_tracer(view)
    missing = [kind for kind in page.maps if kind not in tracer.kinds]
    if missing:
        return f"This page needs {_listed(missing)}; this model has only {_listed(tracer.kinds)}."
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
                _draw_explanation(explanation, *on.notes())
    if on.model == "needed" and on is not all_pages()[0] and view.sentence:
        with st.container(key="on_phone"):
            draw_text(view.sentence, view.spoken[0])


def _draw_explanation(explanation: Explanation, *more: str) -> None:
    with st.popover("What is this?", type="tertiary"):
        for text in filter(None, (explanation.linked, *more)):
            st.markdown(coloured(text))
        for name in explanation.terms:
            st.markdown(f"**{name[0].upper()}{name[1:]}.** {coloured(term(name))}")
        for name in explanation.questions:
            with st.expander(name):
                st.markdown(coloured(term(name)))


def _draw_toy() -> None:
    def take(name: str) -> None:
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
