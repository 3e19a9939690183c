"""The sizes that a figure can be downloaded in: the one place that decides widths and type."""

from __future__ import annotations

from dataclasses import dataclass

from figures.palette import CHROME, Chrome, Theme

#: Points in an inch, which is also the unit of every length in this package.
POINTS = 72
#: The smallest type on paper, in points.
LEAST_TYPE = 6.0


@dataclass(frozen=True)
class Preset:
    """The size of a figure, and of its type."""

    name: str  # of the choice
    label: str  # on its button
    #: width, height: inches; a height of 0 is as tall as the figure needs
    width: float
    height: float
    #: title, text, small: type in points: of the title, of captions and tokens, of numbers
    title: float
    text: float
    small: float
    margin: float  # points around everything
    cell: float  # the largest side of a matrix's cell in points
    theme: Theme = "light"  # of the colours; light figures stand on white

    @property
    def room(self) -> float:
        """The width between the margins, in points."""
        return self.width * POINTS - 2 * self.margin

    @property
    def chrome(self) -> Chrome:
        """The colours of text and lines."""
        return CHROME[self.theme]

    @property
    def paper(self) -> str:
        """The colour of the background."""
        return "#ffffff" if self.theme == "light" else self.chrome.surface


#: By name. Widths of a column, of a two-column page, and of a 16:9 slide.
PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset("one-column", "One column", 3.3, 0, 8.5, 7, LEAST_TYPE, 4, 16),
        Preset("two-columns", "Two columns", 6.9, 0, 10, 8, 6.5, 4, 20),
        Preset("slide", "Slide", 40 / 3, 7.5, 24, 14, 12, 30, 36),
        Preset("dark-slide", "Dark slide", 40 / 3, 7.5, 24, 14, 12, 30, 36, "dark"),
    )
}
DEFAULT = PRESETS["two-columns"]
