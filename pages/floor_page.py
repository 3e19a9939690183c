"""Floor plan: figure 1 of the paper with this checkpoint's and this sentence's numbers."""

from typing import Any

from ui.core.side import Side
from ui.core.widgets import draw_hint
from ui.floor.choice import STREAM, FloorChoice, choice_now, network_at
from ui.floor.views import draw_below, draw_plan
from ui.frame.page import Entry, Page
from ui.work.desk import computed
from ui.work.results import Computation


def first(side: Side) -> list[Computation[Any]]:
    """Return the computation of the residual stream."""
    stream = computed(side.view, STREAM)
    return [network_at(choice_now(side.view, side.trace, stream), stream)]


def draw(side: Side) -> None:
    """Draw the model and the panel below it."""
    draw_hint("floor")
    view, trace, stream = side.view, side.trace, computed(side.view, STREAM)
    config = view.entry.config
    assert config is not None  # true of this project's checkpoints
    chosen = choice_now(view, trace, stream)
    draw_plan(stream, trace, config, chosen)
    draw_below(view, trace, stream, chosen)


PAGE = Page(
    "floor", "Floor plan", ":material/floor:", draw, first=first,
    entries=(Entry("The whole model", 1),),
    needs=("internals",),
    choice=(FloorChoice,),
)  # fmt: skip
