"""Floor plan: figure 1 of the paper for this checkpoint, with the sentence's numbers in it."""

from __future__ import annotations

from typing import Any

from ui.core import url_state
from ui.core.side import Side
from ui.core.view import View, current_view
from ui.core.widgets import draw_explained, draw_hint
from ui.floor.choice import STREAM, FloorChoice, choice_now, network_at
from ui.floor.views import draw_below, draw_plan
from ui.frame.pages import require_frame
from ui.work.desk import computed, fragment, get_trace, prepare
from ui.work.results import Computation

require_frame()


def first(side: Side) -> list[Computation[Any]]:
    """Return the first network, of the stream."""
    stream = computed(side.view, STREAM)
    return [network_at(choice_now(side.view, side.trace, stream), stream)]


@fragment
def body(view: View) -> None:
    """Draw the model and what is below it; a fragment, so a choice here reruns only this."""
    trace = get_trace(view)
    stream = computed(view, STREAM)
    config = view.entry.config
    assert config is not None  # a checkpoint of this project has one
    chosen = choice_now(view, trace, stream)
    draw_plan(stream, trace, config, chosen)
    draw_below(view, trace, stream, chosen)
    url_state.write_url()


FloorChoice.show()
draw_explained("floor")
draw_hint("floor")
now = current_view()
prepare(now, first(Side(now, get_trace(now))))
body(now)
