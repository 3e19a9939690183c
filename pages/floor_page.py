"""Floor plan: figure 1 of the paper, alive: a sentence on its way through this checkpoint."""

from typing import Any

import streamlit as st

from ui.components.plan import KINDS
from ui.core.glossary import word_start
from ui.core.view import Request, Side
from ui.export.download import download_below
from ui.floor.exhibits import feed_forward, feed_forward_name, residual_stream, stream_name
from ui.floor.views import WHOLE, FloorChoice, choice_now, choose_again, draw_plan
from ui.frame.page import Entry, Page
from ui.work.desk import computed
from ui.work.results import Computation


def first(side: Side) -> list[Computation[Any] | Request]:
    """Return the computation of all values and, with edits, the unedited translation's request."""
    return [WHOLE, *([side.view.original.request] if side.view.entry.ref.edits else [])]


def draw(side: Side) -> None:
    """Draw the picture, and below it the download of a network or stream."""
    view, trace = side.view, side.trace
    config = view.entry.config
    assert config is not None  # true of this project's checkpoints
    choose_again(view, trace)
    chosen = choice_now(view, trace)
    draw_plan(view, trace, computed(view, WHOLE), config, chosen)
    stack = next((name for name in KINDS if chosen.focus.startswith(name)), "decoder")
    number = chosen.focus.removeprefix(stack).strip(".").partition(".")[0]
    layer = int(number) - 1 if number.isdigit() else 0
    position = chosen.source if stack == "encoder" else chosen.row
    places: dict[str, Any] = {"stack": stack, "layer": layer, "position": position}
    places |= {"source": chosen.source, "row": chosen.row}
    st.space("small")
    note, more = st.columns([3, 1])
    note.caption(word_start((*trace.src_tokens, *trace.tgt_tokens)))
    network = feed_forward_name(stack, layer, position), feed_forward
    figure = network if chosen.focus.endswith("ffn") else (stream_name(stack), residual_stream)
    download_below(more, view, *figure, **places)


PAGE = Page(
    "floor", "Floor plan", ":material/floor:", draw, first=first,
    entries=(Entry("The whole model", 1),),
    needs=("internals",),
    choice=(FloorChoice,),
)  # fmt: skip
