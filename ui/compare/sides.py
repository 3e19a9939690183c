"""A section of Compare as a record, and the two sides that it draws.

The sides stand in columns, row by row, so that what belongs together is at one height. A side whose
model lacks what a section needs says so in its column, and the other one is shown all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from figures.compare import beside
from figures.exhibit import Exhibit, file_stem
from figures.markdown import plain
from ui.compare.choice import Setup
from ui.compare.programs import Compared
from ui.core import url_state
from ui.core.side import Side
from ui.core.url_state import Param
from ui.core.view import CHECKPOINT, SENTENCE
from ui.export.download import source_of
from ui.frame.availability import why_not
from ui.frame.pages import PAGES, PageSpec
from ui.frame.steering import PREFIX, TARGET

#: Makes a figure outside of a session; must hold no trace.
Maker = Callable[[], Exhibit]


@dataclass(frozen=True)
class Download:
    """A section's figure, as `ui.export.download.download_button` takes it."""

    make: Maker
    name: str
    n_numbers: int = 0


@dataclass(frozen=True, eq=False)
class Pair:
    """Both sides of a section on screen.

    Attributes:
        room: the section.  setup: what is compared.  sides: A and B.
        reasons: by letter, why a side is not shown.
        controls: the place above both sides.
        anew: whether another section was on screen before this run.
    """

    room: CompareRoom
    setup: Setup
    sides: tuple[Side, Side]
    reasons: Mapping[str, str]
    controls: DeltaGenerator
    anew: bool

    @property
    def shown(self) -> tuple[Side, ...]:
        """The sides that have what the section needs."""
        return tuple(side for side in self.sides if side.letter not in self.reasons)

    def rows(self, *draws: Callable[[Side], object]) -> None:
        """Draw rows of two columns; the first row says why a side is not shown."""
        for number, draw in enumerate(draws):
            self._row(draw, self._say_why if number == 0 else None)

    def _row(
        self, draw: Callable[[Side], object], absent: Callable[[Side], object] | None = None
    ) -> None:
        for side, column in zip(self.sides, st.columns(2, gap="large"), strict=True):
            with column.container():
                if side.letter not in self.reasons:
                    draw(side)
                elif absent is not None:
                    absent(side)

    def _say_why(self, side: Side) -> None:
        spec = self.room.spec
        reason = plain(self.reasons[side.letter])
        st.info(f"{side.lead}{reason}", icon=spec.icon if spec else None)

    def links(self, settings: Callable[[Side], Mapping[str, str]] = lambda side: {}) -> None:
        """Draw a row of links to the whole page of each side.

        Args:
            settings: of that page, as raw strings.
        """
        self._row(lambda side: self._link(side, settings(side)))

    def _link(self, side: Side, settings: Mapping[str, str]) -> None:
        spec, view = self.room.spec, side.view
        assert spec is not None
        reason = why_not(view, spec)
        if reason is not None:
            st.caption(plain(reason))
            return
        query = url_state.query() | {CHECKPOINT.name: view.checkpoint, SENTENCE.name: view.sentence}
        if side.letter == "B":
            query.pop(PREFIX.name, None)
            query.pop(TARGET.name, None)
            if view.target is not None:
                query[TARGET.name] = view.target
        st.page_link(
            spec.file, label=f"{side.letter} on {spec.title}", icon=spec.icon,
            query_params={**query, **settings},
        )  # fmt: skip

    def download(self, maker: Callable[[Side], Maker], title: str = "") -> Download | None:
        """The figures of the sides that are shown as one; None if there are none.

        Args:
            maker: the figure of a side.
            title: of both; the section's by default.
        """
        if not self.shown:
            return None
        title = title or self.room.label
        makers = {side.letter: maker(side) for side in self.shown}
        name = file_stem("compare", title)
        return Download(partial(both_exhibit, self.setup, title, name, makers), name)


@dataclass(frozen=True)
class CompareRoom:
    """A section of Compare.

    Attributes:
        name: in the URL.
        draw: draws both sides; returns their download.
        page: url_path of the page that it draws twice, "" if there is none. A side is shown, with a
            link to the page, if the page works with its model.
        title: on the control; the page's own by default.
        params: its own URL parameters.
        lacks: returns what else a side lacks, in a sentence, or None.
        start: called at the start of every run of the whole page, before anything is drawn.
        everywhere: whether a side is shown even if the page does not work with its model.
        follows: whether B follows A's translation even if that is not switched on.
    """

    name: str
    draw: Callable[[Pair], Download | None]
    page: str = ""
    title: str = ""
    params: tuple[Param[Any], ...] = ()
    lacks: Callable[[Setup, Side], str | None] = lambda setup, side: None
    start: Callable[[tuple[Side, Side]], None] = lambda sides: None
    everywhere: bool = False
    follows: bool = False

    @property
    def spec(self) -> PageSpec | None:
        """The page that is drawn twice."""
        return next((spec for spec in PAGES if spec.url_path == self.page), None)

    @property
    def label(self) -> str:
        """The name on the control."""
        return self.title or (self.spec.title if self.spec else self.name.capitalize())

    def open(
        self, setup: Setup, sides: tuple[Side, Side], controls: DeltaGenerator, *, anew: bool
    ) -> Pair:
        """Both sides, with the reasons why one of them is not shown."""
        reasons = {side.letter: self._why_not(setup, side) for side in sides}
        known = {letter: reason for letter, reason in reasons.items() if reason is not None}
        return Pair(self, setup, sides, known, controls, anew)

    def _why_not(self, setup: Setup, side: Side) -> str | None:
        offered = None if self.spec is None or self.everywhere else why_not(side.view, self.spec)
        return offered or self.lacks(setup, side)


def both_exhibit(setup: Setup, title: str, name: str, makers: Mapping[str, Maker]) -> Exhibit:
    """Return the figures of both sides as one. Needs no session."""
    made = {letter: make() for letter, make in makers.items()}
    return beside(name, f"{title}: A and B", who_is_who(setup), made)


def compared(setup: Setup) -> Compared:
    """Return both sides as captions and programs name them."""
    return Compared(who_is_who(setup), (source_of(setup.left), source_of(setup.right)))


def who_is_who(setup: Setup) -> str:
    """Say what A and B are, for a caption."""
    if setup.pairing == "models":
        models = f"A is {setup.left.checkpoint}, B is {setup.right.checkpoint}"
        what = f"{models}; both read “{setup.left.sentence}”."
    else:
        texts = f"A reads “{setup.left.sentence}”, B reads “{setup.right.sentence}”"
        what = f"{texts}; checkpoint {setup.left.checkpoint}."
    return f"{what} B follows A's translation." if setup.follow else what
