"""A page of the app as one declaration, and all pages: `PAGE` of each pages/NAME_page.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from importlib import import_module, reload
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, ParamSpec, TypeVar, cast

import streamlit as st

from figures.exhibit import Exhibit, file_stem
from transformer.trace.tracer import Ability
from transformer.types import AttentionKind
from ui.core import url_state
from ui.core.choice import Choice
from ui.core.glossary import Explanation
from ui.core.side import Side
from ui.core.url_state import Param
from ui.core.view import Request, View, current_view
from ui.export.download import download_below, figure_for
from ui.frame.beside import Beside
from ui.platform.session import StreamlitPage
from ui.work.desk import fragment, get_trace, prepare
from ui.work.results import Computation

#: The doors of the menu, from left to right.
DOORS = (
    "Translate", "Attention", "The whole model", "Experiments", "Beyond translation", "Lessons",
)  # fmt: skip

_ASKED = "headlight_page_asked"

#: Files of pages, with the times at which they were changed before they were read.
_READ: dict[Path, int] = {}
_KEPT: list[Callable[[], None]] = []

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Entry:
    """Place of a page, or of one of its views, in the menu."""

    door: str  # one of `DOORS`
    order: int  # among the door's entries; a page in its default state is the first of its entries
    name: str = ""  # on screen; "" is the page's title
    settings: Mapping[str, str] = field(default_factory=dict)  # of the view, as in the URL
    help: str = ""  # its explanation in explanations.toml; "" is the page's


@dataclass(frozen=True, eq=False)
class Page:
    """One page of the app."""

    path: str  # in the URL, and the NAME of the file
    #: title, icon: in the navigation
    title: str
    icon: str
    #: draws a view with its trace below the frame's bars, again with each choice
    draw: Callable[[Side], object] = lambda side: None
    aliases: tuple[str, ...] = ()  # other addresses
    entries: tuple[Entry, ...] = ()  # in the menu; a page without any is linked from elsewhere
    #: abilities that the model must have; if one is missing, the frame says why
    needs: tuple[Ability, ...] = ()
    maps: tuple[AttentionKind, ...] = ()  # kinds of attention that its traces must contain
    #: whether the chosen checkpoint is needed, only shown where there is one (and with it its
    #: training), or absent
    model: Literal["needed", "shown", "absent"] = "needed"
    choice: tuple[type[Choice] | Param[Any], ...] = ()  # settings in the page's link
    #: "What is this?"; by default the text of the page's path in explanations.toml
    help: Explanation | None = None
    notes: Callable[[], tuple[str, ...]] = tuple  # paragraphs that follow it
    #: makes the picture that `draw` shows, of a trace or a model; below it stands its download,
    #: and Compare shows it for A and for B
    figure: Callable[..., Exhibit] | None = None
    #: returns what `draw` will ask for, to be computed in one job
    first: Callable[[Side], Sequence[Computation[Any] | Request]] = lambda side: ()
    #: draws a page that is more than one view with a trace, in place of `draw`
    whole: Callable[[View], None] | None = None
    beside: tuple[Beside, ...] = ()  # its views in Compare

    @cached_property
    def params(self) -> tuple[Param[Any], ...]:
        """All settings in the page's link."""
        groups = ((each,) if isinstance(each, Param) else each.params() for each in self.choice)
        return tuple(param for group in groups for param in group)

    @property
    def views(self) -> tuple[Beside, ...]:
        """Its views in Compare."""
        if self.beside or self.figure is None:
            return self.beside
        make = self.figure
        return (Beside((self.draw,), lambda side: partial(figure_for, side.view, make)),)

    @property
    def file(self) -> str:
        """The file, relative to app.py."""
        return f"pages/{self.path}_page.py"

    def show(self) -> None:
        """Draw the page."""
        view = current_view()
        if self.whole is not None:
            self.whole(view)
        else:
            self.story(view)

    def story(self, view: View) -> None:
        """Compute what comes first, then draw in a fragment: a choice there reruns only that."""
        # Outside the fragment, so its progress and messages replace the page.
        prepare(view, self.first(Side(view, get_trace(view))))
        _draw(self, view, _steering())


def of_pages(function: Callable[P, T]) -> Callable[P, T]:
    """Keep what a function says of the pages until one of their files changes."""
    kept = cache(function)
    _KEPT.append(kept.cache_clear)
    return cast("Callable[P, T]", kept)


def reload_changed() -> None:
    """Import pages again whose files have changed, as they do in development."""
    for path, before in [*_READ.items()]:
        if before != (now := path.stat().st_mtime_ns):
            _READ[path] = now
            reload(import_module(f"pages.{path.stem}"))
            for forget in _KEPT:
                forget()


@of_pages
def all_pages() -> tuple[Page, ...]:
    """Return the pages in the order of the menu, and of the keys that turn pages; home first."""
    files = [*(Path(__file__).parents[2] / "pages").glob("*_page.py")]
    _READ.update({file: file.stat().st_mtime_ns for file in files})
    found = [import_module(f"pages.{file.stem}").PAGE for file in files]

    def place(page: Page) -> tuple[int, int, str]:
        doors = [(DOORS.index(each.door), each.order) for each in page.entries]
        return *min(doors, default=(len(DOORS), 0)), page.path

    return tuple(sorted(found, key=place))


@of_pages
def entries_of(door: str) -> dict[str, tuple[Page, Entry]]:
    """Return what is behind a door, by name."""
    found = [(page, each) for page in all_pages() for each in page.entries if each.door == door]
    found.sort(key=lambda one: one[1].order)
    return {each.name or page.title: (page, each) for page, each in found}


def page_at(path: str) -> Page:
    """Return the page of an address; "" is home. Raises `KeyError` if there is none."""
    return {"": all_pages()[0], **{page.path: page for page in all_pages()}}[path]


# A run marks its pages, so each run has copies.
@of_pages
def streamlit_page(page: Page, title: str = "") -> StreamlitPage:
    """Return a page for Streamlit; with a title it stands in the header."""
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
    """Return what makes another view of the sentence, as in the URL."""
    settings = url_state.everything()
    return [settings.get(name, "") for name in ("prefix", "target", "edit")]


def link_to(
    path: str, label: str = "", icon: str = "", values: Mapping[Param[Any], Any] | None = None,
    help: str | None = None,
) -> None:  # fmt: skip
    """Draw a link to a page, by default with its title and icon.

    Args: values: settings that differ from the page on screen; None carries no settings over.
    """
    page = page_at(path)
    st.page_link(
        streamlit_page(page), label=label or page.title, icon=icon or page.icon, help=help,
        query_params=None if values is None else url_state.query(values),
    )  # fmt: skip


def open_page(path: str = "", values: Mapping[str, str] = MappingProxyType({})) -> None:
    """Have the next run show a page, home by default, with these settings. A callback."""
    url_state.bring(values)
    st.session_state[_ASKED] = path or all_pages()[0].path, dict(values)


def leaves() -> bool:
    """Return True if the next run shows another page: a fragment then has to rerun the app."""
    return _ASKED in st.session_state


def asked_for_page() -> tuple[str, dict[str, str]]:
    """Return and forget the address and settings given to `open_page`; "" for none."""
    asked: tuple[str, dict[str, str]] = st.session_state.pop(_ASKED, ("", {}))
    return asked
