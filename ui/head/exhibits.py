"""The figure of the page "Inside a head", and the computation behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from figures.exhibit import Exhibit
from figures.head import head_exhibit
from figures.labels import query_labels
from transformer.trace.inspection import inspect_head
from transformer.trace.records import HeadStages, Trace
from transformer.types import AttentionKind
from ui.components.stages import Chosen, stages_component
from ui.export.programs import Source, header

#: Each kind's name, and the text its keys come from (section 3.2.3).
KINDS: dict[AttentionKind, tuple[str, str]] = {
    "encoder_self": ("Encoder self-attention", "source"),
    "decoder_self": ("Decoder self-attention", "translation"),
    "cross": ("Cross-attention", "source"),
}


@dataclass(frozen=True)
class HeadChoice:
    """One query in one head; layer, head and position from 0."""

    kind: AttentionKind
    layer: int
    head: int
    query: int


def name_of_kind(kind: AttentionKind, trace: Trace) -> str:
    """Return the name of a kind in this trace; one stack is neither encoder nor decoder of two."""
    if trace.src_tokens and trace.tgt_tokens:
        return KINDS[kind][0]
    return "Causal self-attention" if kind == "decoder_self" else "Self-attention"


def names_of(place: HeadChoice, trace: Trace) -> tuple[str, str]:
    """Return the label of the query's row, and the text that the keys come from."""
    keys = KINDS[place.kind][1] if trace.src_tokens and trace.tgt_tokens else "text"
    return query_labels(trace, place.kind)[place.query], keys


def stages_of(place: HeadChoice) -> Callable[..., HeadStages]:
    """Return the function that computes a place's stages from a model and a trace."""
    return lambda model, trace: inspect_head(
        model.model, trace, place.kind, place.layer, place.head, place.query
    )


def difference(stages: HeadStages, trace: Trace) -> float:
    """Return the largest difference between the recomputed weights and the recorded map."""
    recorded = trace.attention(stages.kind)[stages.layer, stages.head, stages.query]
    return float(np.abs(stages.scaled.weights - recorded).max())


def head_figure(stages: HeadStages, trace: Trace, chosen: Chosen, source: Source) -> Exhibit:
    """Return the stages of one query as a figure.

    Args:
        trace: the trace from which the stages were computed.
        chosen: the key being followed, and what q · k is divided by.
    """
    names = names_of(HeadChoice(stages.kind, stages.layer, stages.head, stages.query), trace)
    shown = stages_component(
        stages, names=names, difference=difference(stages, trace), chosen=chosen
    )
    made = head_exhibit(stages, header(source), names, shown.offline())
    where = f"layer {stages.layer + 1}, head {stages.head + 1}"
    return replace(made, facts=source.facts(where, trace.source))
