"""Figures as drawn by matplotlib: texts, axes, and their positions."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from figures.exhibit import Exhibit
from figures.paper import DEFAULT, Preset
from figures.paper.page import drawn
from figures.paper.style import style


class Drawing:
    """A figure at 72 dots per inch, so one pixel is one point, with y = 0 at the bottom."""

    def __init__(self, figure: Figure) -> None:
        self.figure, self.canvas = figure, FigureCanvasAgg(figure)
        self.canvas.draw()

    @property
    def size(self) -> tuple[float, float]:
        width, height = self.figure.get_size_inches()
        return float(width), float(height)

    @cached_property
    def texts(self) -> list[Text]:
        return [
            each for each in self.figure.findobj(Text)
            if isinstance(each, Text) and each.get_visible() and each.get_text()
        ]  # fmt: skip

    @property
    def words(self) -> list[str]:
        return [each.get_text() for each in self.texts]

    @property
    def lines(self) -> str:
        return " ".join(each.get_text() for each in self.figure.texts)

    def box(self, text: Text) -> Bbox:
        return text.get_window_extent(self.canvas.get_renderer())

    @property
    def matrices(self) -> list[Axes]:
        return [ax for ax in self.figure.axes if ax.yaxis_inverted() and ax.axison]

    def cells(self, ax: Axes) -> list[tuple[int, ...]]:
        (mesh,) = ax.collections
        return [tuple(round(255 * part) for part in each) for each in mesh.get_facecolors()]


@contextmanager
def drawing(exhibit: Exhibit, preset: Preset = DEFAULT) -> Iterator[Drawing]:
    with style(preset):
        yield Drawing(drawn(exhibit, preset))
