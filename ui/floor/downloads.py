"""The downloads of the Floor plan."""

from __future__ import annotations

from figures.exhibit import Exhibit
from figures.stream import feed_forward_name, stream_name
from transformer.config import ModelConfig
from transformer.trace.records import Stream
from ui.components.plan import PlanChoice
from ui.core.view import View
from ui.export.download import download_button, source_of, trace_for
from ui.floor.choice import place_of
from ui.floor.exhibits import network_figure, plan_offline, reading_of, stream_figure
from ui.work.results import Computation, result_of

#: The stream of a view's sentence.
STREAM: Computation[Stream] = Computation("stream", (), lambda model, trace: model.stream(trace))


def offer(view: View, config: ModelConfig, chosen: PlanChoice, stream: Stream) -> None:
    """Draw the download button of the view below the drawing."""
    stack, layer, position = place_of(chosen, stream)
    network = chosen.block.endswith("ffn")
    name = feed_forward_name(stack, layer, position) if network else stream_name(stack)
    download_button(lambda: make_figure(view, config, chosen), key="floor", name=name)


def make_figure(view: View, config: ModelConfig, chosen: PlanChoice) -> Exhibit:
    """Return the figure; needs no session."""
    stream, trace = result_of(view.request, STREAM), trace_for(view)
    place, source = place_of(chosen, stream), source_of(view)
    offline = plan_offline(stream, trace, config, chosen)
    if not chosen.block.endswith("ffn"):
        return stream_figure(stream, place, offline, source)
    wanted = Computation("feed_forward", place, reading_of(stream, place))
    return network_figure(result_of(view.request, wanted), offline, source)
