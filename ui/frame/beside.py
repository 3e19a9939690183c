"""A page's view in Compare, drawn for sides A and B in two columns."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from figures.attention import beside
from figures.exhibit import Exhibit, file_stem
from figures.labels import one_stop, plain
from ui.core.glossary import term
from ui.core.url_state import Param
from ui.core.view import Side, View
from ui.core.widgets import raw_box

PAIRINGS = ("models", "sentences", "edits")

#: Settings in a link to a page.
Changes = Mapping[Param[Any], Any]

#: Makes a figure without a session; must not hold a trace.
Maker = Callable[[], Exhibit]


@dataclass(frozen=True)
class Setup:
    """Both sides of a comparison."""

    pairing: str  # one of `PAIRINGS`
    #: left, right: the views of A (the sidebar's) and B
    left: View
    right: View
    others: tuple[str, ...] = ()  # names of the checkpoints on offer for B
    refused: str = ""  # why B is not the requested checkpoint, or ""
    follow: bool = False  # B follows A's translation (teacher forcing)

    @property
    def views(self) -> tuple[View, View]:
        """The views of A and B."""
        return self.left, self.right

    @property
    def by_place(self) -> bool:
        """True if different words in the same place are paired."""
        return self.pairing == "sentences"

    @property
    def pairings(self) -> tuple[str, ...]:
        """Pairings on offer; a file of arrays has only one sentence."""
        if self.left.kind == "archive":
            return PAIRINGS[:1]
        return PAIRINGS if any(view.entry.ref.edits for view in self.views) else PAIRINGS[:2]

    @property
    def names(self) -> tuple[str, str]:
        """Names of the sides in text: model titles, or A and B."""
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
        return one_stop(what) + " B follows A's translation." * self.follow

    def following(self, text: str) -> Self:
        """Return this setup with B following a text."""
        return replace(self, right=following(self.right, text), follow=True)


def following(view: View, text: str | None) -> View:
    """Return the view with a given translation in place of a search."""
    return replace(view, target=text, prefix=(), sampling=None)


@dataclass(frozen=True)
class Download:
    """Arguments of `ui.export.download.download_button`."""

    make: Maker
    name: str
    n_numbers: int = 0


@dataclass(frozen=True, eq=False)
class Pair:
    """Both sides on screen."""

    setup: Setup
    sides: tuple[Side, Side]  # A and B
    reasons: Mapping[str, str]  # reasons for sides that are not shown, by letter
    icon: str  # of the page drawn twice
    controls: DeltaGenerator  # above both sides

    @property
    def shown(self) -> tuple[Side, ...]:
        """The sides that the page can show."""
        return tuple(side for side in self.sides if side.letter not in self.reasons)

    def rows(self, *draws: Callable[[Side], object]) -> None:
        """Draw rows of two columns; the first row has the reason for a side that is not shown."""
        for number, draw in enumerate(draws):
            self.every(draw, self._say_why if number == 0 else None)

    def every(
        self, draw: Callable[[Side], object], absent: Callable[[Side], object] | None = None
    ) -> None:
        """Draw one row; `absent` draws a side that is not shown."""
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
    """A view of Compare: a page, or part of it, drawn for A and B.

    Controls are above the two sides, a summary of both and links to the page below.
    """

    #: draw a side, one row each; () is the page's `draw`
    rows: tuple[Callable[[Side], object], ...] = ()
    #: returns the maker of a side's figure; both figures form one download
    figure: Callable[[Side], Maker] | None = None
    name: str = ""  # in the URL, by default the page's path
    title: str = ""  # on the control, by default the page's
    above: Callable[[Pair], object] = lambda pair: None  # draws controls; False ends the view
    #: draws a summary of both sides, and returns a download that replaces `figure`
    below: Callable[[Pair], Download | None] | None = None
    #: settings of the link to a side's page; None draws no links
    settings: Callable[[Side], Changes] | None = lambda side: {}
    params: tuple[Param[Any], ...] = ()  # URL settings
    #: returns a sentence that names what a side lacks, or None
    lacks: Callable[[Side], str | None] = lambda side: None
    #: shows a side even if the page does not work with its model
    everywhere: bool = False
    follows: bool = False  # B always follows A's translation


def both_of(
    pair: Pair, figure: Callable[[Side], Maker], title: str, n_numbers: int = 0
) -> Download | None:
    """Return one download of both sides' figures, or None if no side is shown."""
    makers = {side.letter: figure(side) for side in pair.shown}
    name, about = file_stem("compare", title), pair.setup.about

    def make() -> Exhibit:
        exhibits = {letter: of_side() for letter, of_side in makers.items()}
        return beside(name, f"{title}: A and B", about, exhibits)

    return Download(make, name, n_numbers) if makers else None


def draw_cell(
    side: Side, places: Sequence[DeltaGenerator], counts: Sequence[int], shown: Sequence[str],
    *, same: bool = True, mean: bool = False,
) -> None:  # fmt: skip
    """Draw a side's layer and head boxes.

    Args:
        counts: numbers of layers and heads.
        shown: raw values on screen; unavailable ones show as "mean".
        same, mean: offer "as A" to B, and the mean.
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
            others=[*zip(side.cell_params, shown, strict=False)],
            named=lambda raw, axis=axis, names=names: (  # type: ignore[misc]
                f"{side.letter}  {names.get(raw, f'{axis} {raw}')}"
            ),
        )  # fmt: skip
