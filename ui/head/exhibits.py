"""What the page "Inside a head" computes, and what of it can be taken away."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from figures.exhibit import Exhibit, Offline
from figures.head import head_exhibit
from transformer.trace.inspection import inspect_head
from transformer.trace.records import HeadStages, Trace
from transformer.types import AttentionKind
from ui.components.stages import Chosen, still_stages
from ui.core.view import View
from ui.export.download import snippet_header
from ui.head.choice import Place
from ui.work.computed import result_of
from ui.work.results import trace

#: What each kind is called, and what its queries and keys are tokens of (section 3.2.3).
KINDS: dict[AttentionKind, tuple[str, tuple[str, str]]] = {
    "encoder_self": ("Encoder self-attention", ("source", "source")),
    "decoder_self": ("Decoder self-attention", ("translation", "translation")),
    "cross": ("Cross-attention", ("translation", "source")),
}


def stages_of(place: Place) -> Callable[..., HeadStages]:
    """What to compute for a place."""
    return lambda model, trace: inspect_head(
        model.model, trace, place.kind, place.layer, place.head, place.query
    )


def difference(stages: HeadStages, trace: Trace) -> float:
    """How far the weights made here are from the recorded map."""
    recorded = trace.attention(stages.kind)[stages.layer, stages.head, stages.query]
    return float(np.abs(stages.scaled.weights - recorded).max())


def exhibit(view: View, place: Place, chosen: Chosen) -> Callable[[], Exhibit]:
    """The figure to take away, made outside of the session."""
    names = KINDS[place.kind][1]

    def make() -> Exhibit:
        stages = result_of(view, "head", place, stages_of(place))
        recorded = trace(view.request)
        message = still_stages(
            stages, names=names, difference=difference(stages, recorded), chosen=chosen
        )
        return head_exhibit(stages, snippet_header(view), names, Offline("stages", message))

    return make
