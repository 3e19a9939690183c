"""The figures of the Floor plan, and the computations behind them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from figures.exhibit import Exhibit, Offline
from figures.stream import feed_forward_exhibit, stream_exhibit
from transformer.config import ModelConfig
from transformer.trace.records import FeedForwardReading, StackName, Stream, Trace
from transformer.trace.stream import read_feed_forward
from ui.components.plan import PlanChoice, plan_component
from ui.export.programs import Source, header

Place = tuple[StackName, int, int]


def reading_of(stream: Stream, place: Place) -> Callable[..., FeedForwardReading]:
    """Return a function that reads the feed-forward network at a place from a model."""
    return lambda model, _: read_feed_forward(model.model, model.tokenizer.target, stream, *place)


def network_figure(reading: FeedForwardReading, offline: Offline, source: Source) -> Exhibit:
    """Return what a feed-forward network adds to a token, as a figure."""
    made = feed_forward_exhibit(reading, header(source), offline)
    return replace(made, facts=source.facts())


def stream_figure(stream: Stream, place: Place, offline: Offline, source: Source) -> Exhibit:
    """Return the stream of one stack as a figure; the token's line stands out."""
    stack, _, position = place
    made = stream_exhibit(stream.stack(stack), stack, position, header(source), offline)
    return replace(made, facts=source.facts())


def plan_offline(stream: Stream, trace: Trace, config: ModelConfig, chosen: PlanChoice) -> Offline:
    """Return the drawing for an offline page."""
    return plan_component(stream, trace, config, chosen).offline()
