"""The URL parameters of the Floor plan, and the choice read from them."""

from __future__ import annotations

from transformer.trace.records import StackName, Stream, Trace
from ui.components.plan import BLOCKS, PlanChoice
from ui.core import url_state
from ui.core.url_state import LAYER, STEP, Param
from ui.core.view import View
from ui.head.settings import default_query

SOURCE: Param[int | None] = Param(
    "source", url_state.whole(1, 99_999), None, lambda value: "" if value is None else str(value)
)
BLOCK: Param[str] = Param("block", url_state.one_of(BLOCKS), BLOCKS[0])


def choice_now(view: View, trace: Trace, stream: Stream) -> PlanChoice:
    """Return the stored choice, with defaults if unset or not in this trace.

    It opens on the decoder's last layer, whose neurons write straight into the prediction.
    """
    depth = max(len(stream.encoder.hidden), len(stream.decoder.hidden))
    layer, source, row = url_state.get(LAYER), url_state.get(SOURCE), url_state.get(STEP)
    if layer is None or layer > depth:
        layer = len(stream.decoder.hidden)
    if source is None or source > len(trace.src_tokens):
        source = default_query(view, trace, "encoder_self") + 1
    if row is None or row > len(trace.tgt_tokens):
        row = default_query(view, trace, "cross") + 1
    return PlanChoice(layer - 1, source - 1, row - 1, url_state.get(BLOCK))


def keep(chosen: PlanChoice) -> None:
    """Store a choice."""
    url_state.put(LAYER, chosen.layer + 1)
    url_state.put(SOURCE, chosen.source + 1)
    url_state.put(STEP, chosen.row + 1)
    url_state.put(BLOCK, chosen.block)


def place_of(chosen: PlanChoice, stream: Stream) -> tuple[StackName, int, int]:
    """Return the stack, layer and position of the view below."""
    stack: StackName = "encoder" if chosen.block.startswith("encoder") else "decoder"
    layer = min(chosen.layer, len(stream.stack(stack).hidden) - 1)
    return stack, layer, chosen.source if stack == "encoder" else chosen.row
