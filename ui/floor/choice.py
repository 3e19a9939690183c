"""The Floor plan's URL parameters, and the choice that they make."""

from dataclasses import dataclass

from transformer.trace.records import Trace, Whole
from transformer.trace.whole import record_whole
from ui.components.plan import PlanChoice, fitting
from ui.core import url_state
from ui.core.choice import Choice
from ui.core.url_state import STEP, Param
from ui.core.view import View
from ui.head.choice import default_query
from ui.work.results import Computation


@dataclass(frozen=True)
class FloorChoice(Choice):
    """The URL parameters: source token, translation step, and the part in focus."""

    source: Param[int | None] = url_state.position("source")
    step: Param[int | None] = STEP
    #: such as `decoder.2.cross.3`, see `ui.components.plan.fitting`
    focus: Param[str] = Param("focus", url_state.text(40), "")


def choice_now(view: View, trace: Trace) -> PlanChoice:
    """Return the stored choice, with defaults for what is not set or not in this trace.

    The default layer is the decoder's last, whose neurons add directly to the logits.
    """
    focus = fitting(url_state.get(FloorChoice.focus), trace)
    source, row = default_query(view, trace, "encoder_self"), default_query(view, trace, "cross")
    return PlanChoice(
        url_state.index(FloorChoice.source, len(trace.src_tokens), source),
        url_state.index(STEP, len(trace.tgt_tokens), row),
        focus or f"decoder.{len(trace.cross)}",
    )


def keep(chosen: PlanChoice) -> None:
    """Store a choice."""
    FloorChoice(chosen.source + 1, chosen.row + 1, chosen.focus).put()


#: All values of a view's model for its sentence.
WHOLE: Computation[Whole] = Computation(
    "whole", (), lambda model, trace: record_whole(model.model, model.tokenizer.target, trace)
)
