"""Sizes of downloaded figures: width, height and type."""

from dataclasses import dataclass

from figures.palette import CHROME, THEMES, Chrome, Theme

POINTS = 72  # per inch; lengths in this package are in points
LEAST_TYPE = 6.0  # smallest type on paper, in points


@dataclass(frozen=True)
class Preset:
    """Figure size and type sizes."""

    name: str  # the choice
    label: str  # button label
    #: width, height: inches; a height of 0 follows from the contents
    width: float
    height: float
    #: title, text, small: type sizes of the title, of captions and tokens, of numbers
    title: float
    text: float
    small: float
    margin: float  # on all sides
    cell: float  # largest side of a matrix cell
    theme: Theme = "light"  # light figures have a white background
    dpi: int = 300  # dots per inch of a PNG
    #: matrices fill the height, on the background of the page
    fills: bool = False
    titled: bool = True  # False draws parts without the figure's title and caption

    @property
    def room(self) -> float:
        """The width between the margins."""
        return self.width * POINTS - 2 * self.margin

    @property
    def chrome(self) -> Chrome:
        """Text and line colours."""
        return CHROME[self.theme]

    @property
    def paper(self) -> str:
        """Background colour."""
        return "#ffffff" if self.theme == "light" and not self.fills else self.chrome.surface


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

#: By theme: 1920 x 1080 pixels, read from the back of a hall.
HALL: dict[Theme, Preset] = {
    theme: Preset("hall", "Hall", 40 / 3, 7.5, 30, 20, 20, 14, 80, theme, dpi=144, fills=True)
    for theme in THEMES
}
