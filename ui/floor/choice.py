"""The Floor plan's URL parameters, and the choice that they make."""

from dataclasses import dataclass

from transformer.trace.records import FeedForwardReading, StackName, Stream, Trace
from transformer.trace.stream import read_feed_forward
from ui.components.plan import BLOCKS, PlanChoice
from ui.core import url_state
from ui.core.choice import Choice
from ui.core.url_state import LAYER, STEP, Param
from ui.core.view import View
from ui.head.choice import default_query
from ui.work.results import Computation


@dataclass(frozen=True)
class FloorChoice(Choice):
    """The URL parameters: layer, source token, translation step, and the view below the plan."""

    layer: Param[int | None] = url_state.position("floor")
    source: Param[int | None] = url_state.position("source")
    step: Param[int | None] = STEP
    block: Param[str] = Param("block", url_state.one_of(BLOCKS), BLOCKS[0])


def choice_now(view: View, trace: Trace, stream: Stream) -> PlanChoice:
    """Return the stored choice, with defaults for what is not set or not in this trace.

    The default layer is the decoder's last, whose neurons add directly to the logits.
    """
    if url_state.arrived(LAYER) and not url_state.stored(FloorChoice.layer):
        url_state.put(FloorChoice.layer, url_state.get(LAYER))  # older links name a head's layer
    depth = max(len(stream.encoder.hidden), len(stream.decoder.hidden))
    source, row = default_query(view, trace, "encoder_self"), default_query(view, trace, "cross")
    return PlanChoice(
        url_state.index(FloorChoice.layer, depth, len(stream.decoder.hidden) - 1),
        url_state.index(FloorChoice.source, len(trace.src_tokens), source),
        url_state.index(STEP, len(trace.tgt_tokens), row),
        url_state.get(FloorChoice.block),
    )


def keep(chosen: PlanChoice) -> None:
    """Store a choice."""
    FloorChoice(chosen.layer + 1, chosen.source + 1, chosen.row + 1, chosen.block).put()


def place_of(chosen: PlanChoice, stream: Stream) -> tuple[StackName, int, int]:
    """Return the stack, layer and position that the view below shows."""
    stack: StackName = "encoder" if chosen.block.startswith("encoder") else "decoder"
    layer = min(chosen.layer, len(stream.stack(stack).hidden) - 1)
    return stack, layer, chosen.source if stack == "encoder" else chosen.row


#: The residual streams of a view's sentence.
STREAM: Computation[Stream] = Computation("stream", (), lambda model, trace: model.stream(trace))


def network_at(chosen: PlanChoice, stream: Stream) -> Computation[FeedForwardReading]:
    """Return the computation that reads the feed-forward network in the view below."""
    place = place_of(chosen, stream)
    return Computation(
        "feed_forward", place,
        lambda model, _: read_feed_forward(model.model, model.tokenizer.target, stream, *place),
    )  # fmt: skip
