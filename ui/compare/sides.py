"""What every view of the Compare page that shows a page of each side has in common.

The two stand in columns, row by row, so that what belongs together is at one height. A side whose
model lacks what a view needs says so in its column, and the other one is shown all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from figures.compare import beside
from figures.exhibit import Exhibit, file_stem
from figures.markdown import plain
from ui.compare.choice import Setup
from ui.core import url_state
from ui.core.view import CHECKPOINT, SENTENCE, View
from ui.export.download import download_button
from ui.frame.availability import why_not
from ui.frame.pages import PAGES, PageSpec
from ui.frame.steering import PREFIX, TARGET

#: "A" and "B", the left and the right side.
LETTERS = "AB"

#: What a side's view is made into, outside of a session.
Maker = Callable[[], Exhibit]


@dataclass(frozen=True)
class Bar:
    """The places above a view.

    Attributes:
        controls: a place for what is chosen in it.  aside: for the download, beside the views.
        anew: whether the view was not on screen before this run (see `compare_choice.opened`).
    """

    controls: DeltaGenerator
    aside: DeltaGenerator
    anew: bool


def page_of(url_path: str) -> PageSpec:
    """The page that a view comes from."""
    return next(spec for spec in PAGES if spec.url_path == url_path)


@dataclass(frozen=True)
class Sides:
    """Which sides a view can show.

    Attributes:
        shown: 0 for the left and 1 for the right.
        reasons: why each other one is not shown.
        icon: of the page that shows the view of one model.
    """

    shown: tuple[int, ...]
    reasons: Mapping[int, str]
    icon: str

    def in_row(self, draw: Callable[[int], None], *, first: bool = False) -> None:
        """Draw one row: what `draw` draws for each side; in the first one also why not."""
        for side, column in enumerate(rows()):
            with column.container():
                if side in self.shown:
                    draw(side)
                elif first:
                    reason = f"**{LETTERS[side]}** · {plain(self.reasons[side])}"
                    st.info(reason, icon=self.icon)


def sides_of(setup: Setup, url_path: str, missing: Sequence[str | None] = (None, None)) -> Sides:
    """Which sides can be shown as one page shows them.

    Args:
        url_path: of the page.
        missing: what else the left and the right may lack, in a sentence.
    """
    spec = page_of(url_path)
    reasons = {
        side: reason
        for side in (0, 1)
        if (reason := why_not(view_of(setup, side), spec) or missing[side]) is not None
    }
    return Sides(tuple(side for side in (0, 1) if side not in reasons), reasons, spec.icon)


def rows() -> list[DeltaGenerator]:
    """The two columns of one row."""
    return list(st.columns(2, gap="large"))


def view_of(setup: Setup, side: int) -> View:
    """What a side shows."""
    return (setup.left, setup.right)[side]


def link_page(setup: Setup, side: int, url_path: str, **more: str) -> None:
    """A link to the whole page of one side.

    Args:
        more: settings of that page, as raw strings.
    """
    spec, view = page_of(url_path), view_of(setup, side)
    query = url_state.query() | {CHECKPOINT.name: view.checkpoint, SENTENCE.name: view.sentence}
    if side == 1:
        query.pop(PREFIX.name, None)
        query.pop(TARGET.name, None)
        if view.target is not None:
            query[TARGET.name] = view.target
    st.page_link(
        spec.file, label=f"{LETTERS[side]} on {spec.title}", icon=spec.icon,
        query_params=query | more,
    )  # fmt: skip


def offer_both(
    setup: Setup, topic: str, sides: Sequence[int], make: Callable[[View, int], Exhibit]
) -> None:
    """The button that takes both sides of a view away as one figure.

    Args:
        topic: what the view is called.
        sides: those that have it; the button is left out where there is none.
        make: the figure of a side, without a session; must hold no trace.
    """
    if not sides:
        return
    makers = {side: partial(make, view_of(setup, side), side) for side in sides}
    name = file_stem("compare", topic)
    download_button(partial(both_exhibit, setup, topic, makers), key="compare", name=name)


def both_exhibit(setup: Setup, topic: str, makers: Mapping[int, Maker]) -> Exhibit:
    """The figures of both sides as one. Needs no session."""
    made = {LETTERS[side]: make() for side, make in makers.items()}
    return beside(
        file_stem("compare", topic), f"{topic}: A and B", who_is_who(setup), made
    )  # fmt: skip


def who_is_who(setup: Setup) -> str:
    """What A and B are, for a caption."""
    if setup.pairing == "models":
        what = f"A is {setup.left.checkpoint}, B is {setup.right.checkpoint}."
    else:
        what = f"A reads “{setup.left.sentence}”, B reads “{setup.right.sentence}”."
    return f"{what} B follows A's translation." if setup.follow else what
