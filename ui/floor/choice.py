"""The Floor plan's URL parameters, and the choice that they make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from transformer.trace.records import Trace, Whole
from transformer.trace.whole import record_whole
from ui.components.plan import Limits, PlanChoice
from ui.core import url_state
from ui.core.choice import Choice
from ui.core.url_state import LAYER, STEP, Param
from ui.core.view import View
from ui.head.choice import default_query
from ui.work.results import Computation

#: Settings of older links: a layer, and a network or stream.
_LAYER = url_state.position("floor")
_BLOCK: Param[str] = Param("block", url_state.text(20), "")


@dataclass(frozen=True)
class FloorChoice(Choice):
    """The URL parameters: source token, translation step, and the part in focus."""

    source: Param[int | None] = url_state.position("source")
    step: Param[int | None] = STEP
    #: such as `decoder.2.cross.3`, see `ui.components.plan.Limits.fitting`
    focus: Param[str] = Param("focus", url_state.text(40), "")


def choice_now(view: View, trace: Trace) -> PlanChoice:
    """Return the stored choice, with defaults for what is not set or not in this trace.

    The default layer is the decoder's last, whose neurons add directly to the logits.
    """
    limits = Limits.of(trace)
    older: tuple[Param[Any], ...] = (LAYER, _LAYER, _BLOCK)
    named = url_state.arrived(*older) and any(url_state.get(param) for param in older)
    if named and not url_state.arrived(FloorChoice.focus):
        url_state.put(FloorChoice.focus, _older(limits))
    focus = limits.fitting(url_state.get(FloorChoice.focus))
    source, row = default_query(view, trace, "encoder_self"), default_query(view, trace, "cross")
    return PlanChoice(
        url_state.index(FloorChoice.source, len(trace.src_tokens), source),
        url_state.index(STEP, len(trace.tgt_tokens), row),
        focus or f"decoder.{limits.layers[1]}",
    )


def _older(limits: Limits) -> str:
    """Return the focus of a link that names a layer, and a network or stream."""
    block = url_state.get(_BLOCK)
    stack = "encoder" if block.startswith("encoder") else "decoder"
    depth = limits.layers[stack == "decoder"]
    layer = min(url_state.get(_LAYER) or url_state.get(LAYER) or depth, depth)
    return f"{stack}.{layer}" + (".ffn" if block.endswith("ffn") else "")


def keep(chosen: PlanChoice) -> None:
    """Store a choice."""
    FloorChoice(chosen.source + 1, chosen.row + 1, chosen.focus).put()


#: All values of a view's model for its sentence.
WHOLE: Computation[Whole] = Computation(
    "whole", (), lambda model, trace: record_whole(model.model, model.tokenizer.target, trace)
)
