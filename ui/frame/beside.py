"""A page's place in Compare: it draws one side, and Compare draws it for A and for B.

The sides stand in columns, row by row. One whose model lacks what the page needs says so there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from figures.compare import beside
from figures.exhibit import Exhibit, file_stem
from figures.labels import plain
from ui.core.glossary import term
from ui.core.side import Side
from ui.core.url_state import Param
from ui.core.view import View
from ui.core.widgets import raw_box

PAIRINGS = ("models", "sentences", "edits")

#: Settings of a page that a link goes to.
Changes = Mapping[Param[Any], Any]

#: Makes a figure outside of a session; must hold no trace.
Maker = Callable[[], Exhibit]


@dataclass(frozen=True)
class Setup:
    """Both sides of a comparison."""

    pairing: str  # "models" or "sentences"
    #: left, right: the views of A, from the sidebar, and of B
    left: View
    right: View
    others: tuple[str, ...] = ()  # names of the checkpoints that B can be
    refused: str = ""  # why the requested checkpoint is not B, "" if it is
    follow: bool = False  # whether B follows A's translation (teacher forcing)

    @property
    def views(self) -> tuple[View, View]:
        """The views of A and B."""
        return self.left, self.right

    @property
    def by_place(self) -> bool:
        """Return whether words in the same place are partners although they differ."""
        return self.pairing == "sentences"

    @property
    def pairings(self) -> tuple[str, ...]:
        """The pairings on offer; a file of arrays holds one sentence only."""
        if self.left.kind == "archive":
            return PAIRINGS[:1]
        edited = any(view.entry.ref.edits for view in self.views)
        return PAIRINGS if edited else PAIRINGS[:2]

    @property
    def names(self) -> tuple[str, str]:
        """The names of the sides in text: their models' for people, or A and B."""
        if self.pairing == "edits":
            return "the original", "the edited model"
        if self.pairing == "models" and self.left.title != self.right.title:
            return self.left.title, self.right.title
        return "A", "B"

    @property
    def about(self) -> str:
        """Describe A and B for a caption."""
        if self.pairing == "models":
            models = f"A is {self.left.title}, B is {self.right.title}"
            what = f"{models}; both read “{self.left.sentence}”."
        elif self.pairing == "edits":
            edits = self.right.entry.ref.edits
            what = f"A is {self.left.title}, B is the same with the edits {edits}; both read "
            what += f"“{self.left.sentence}”."
        else:
            texts = f"A reads “{self.left.sentence}”, B reads “{self.right.sentence}”"
            what = f"{texts}; model: {self.left.title}."
        return f"{what} B follows A's translation." if self.follow else what

    def following(self, text: str) -> Setup:
        """Return this setup with B following a translation."""
        return replace(self, right=following(self.right, text), follow=True)


def following(view: View, text: str | None) -> View:
    """Return the view with its translation given instead of searched for."""
    return replace(view, target=text, prefix=(), sampling=None)


@dataclass(frozen=True)
class Download:
    """A figure, as `ui.export.download.download_button` takes it."""

    make: Maker
    name: str
    n_numbers: int = 0


@dataclass(frozen=True, eq=False)
class Pair:
    """Both sides on screen."""

    setup: Setup  # what is compared
    sides: tuple[Side, Side]  # A and B
    reasons: Mapping[str, str]  # by letter, why a side is not shown
    icon: str  # of the page that is drawn twice
    controls: DeltaGenerator  # the place above both sides

    @property
    def shown(self) -> tuple[Side, ...]:
        """The sides that have what the page needs."""
        return tuple(side for side in self.sides if side.letter not in self.reasons)

    def rows(self, *draws: Callable[[Side], object]) -> None:
        """Draw rows of two columns; the first row says why a side is not shown."""
        for number, draw in enumerate(draws):
            self.every(draw, self._say_why if number == 0 else None)

    def every(
        self, draw: Callable[[Side], object], absent: Callable[[Side], object] | None = None
    ) -> None:
        """Draw one row; `absent` is for a side that is not shown."""
        for side, column in zip(self.sides, st.columns(2, gap="large"), strict=True):
            with column.container():
                if side.letter not in self.reasons:
                    draw(side)
                elif absent is not None:
                    absent(side)

    def _say_why(self, side: Side) -> None:
        st.info(f"{side.lead}{plain(self.reasons[side.letter])}", icon=self.icon)


@dataclass(frozen=True, eq=False)
class Beside:
    """A page's place in Compare: the page, or a part of it, drawn for A and for B.

    Above the two stand controls, below them what is about both, and links to the page.
    """

    #: draw one side each, the first one row above the second; () is the page's own `draw`
    rows: tuple[Callable[[Side], object], ...] = ()
    #: makes the figure of one side; both become one download
    figure: Callable[[Side], Maker] | None = None
    name: str = ""  # in the URL; "" is the page's path
    title: str = ""  # on the control; "" is the page's
    above: Callable[[Pair], object] = lambda pair: None  # draws controls; False ends the view
    #: draws what is about both sides, and returns the download in place of the sides' figures
    below: Callable[[Pair], Download | None] | None = None
    #: settings of the link to the page of one side; None draws no links
    settings: Callable[[Side], Changes] | None = lambda side: {}
    params: tuple[Param[Any], ...] = ()  # its URL parameters
    #: returns what a side lacks, in a sentence, or None
    lacks: Callable[[Side], str | None] = lambda side: None
    #: whether a side is shown even if the page does not work with its model
    everywhere: bool = False
    follows: bool = False  # whether B follows A's translation even if that is not switched on


def both_of(
    pair: Pair, figure: Callable[[Side], Maker], title: str, n_numbers: int = 0
) -> Download | None:
    """Return the figures of the sides that are shown as one; None if there are none."""
    makers = {side.letter: figure(side) for side in pair.shown}
    name = file_stem("compare", title)
    make = partial(both_exhibit, pair.setup, title, name, makers)
    return Download(make, name, n_numbers) if makers else None


def draw_cell(
    side: Side, places: Sequence[DeltaGenerator], counts: Sequence[int], shown: Sequence[str],
    *, same: bool = True, mean: bool = False,
) -> None:  # fmt: skip
    """Draw the boxes of a side's layer and head.

    Args:
        counts: of layers and heads, perhaps with others.
        shown: raw values on screen; one that is not on offer shows as "mean".
        same, mean: whether B can follow A, and whether all of them combined can be chosen.
    """
    for place, axis, param, count, raw in zip(
        places, ("layer", "head"), side.cell_params, counts, shown, strict=False
    ):
        raws = ["same"] * (same and side.letter == "B") + ["mean"] * mean
        raws += map(str, range(1, count + 1))
        names = {"same": f"{axis} as A", "mean": f"all {axis}s"}
        raw_box(
            place, f"{side.letter} {axis}", param, raws, raw if raw in raws else "mean",
            key=f"{param.name}_widget", help=term(axis),
            named=lambda raw, axis=axis, names=names: (  # type: ignore[misc]
                f"{side.letter}  {names.get(raw, f'{axis} {raw}')}"
            ),
        )  # fmt: skip


def both_exhibit(setup: Setup, title: str, name: str, makers: Mapping[str, Maker]) -> Exhibit:
    """Return the figures of both sides as one. Needs no session."""
    made = {letter: make() for letter, make in makers.items()}
    return beside(name, f"{title}: A and B", setup.about, made)
