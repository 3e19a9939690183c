"""The page "Inside a head": the control for the kind of attention, and one head's stages."""

from __future__ import annotations

from collections.abc import Callable

from streamlit.delta_generator import DeltaGenerator

from transformer.trace.records import HeadStages, Trace
from ui.components.stages import Chosen
from ui.components.stages.mount import head_stages
from ui.core.side import Side
from ui.core.url_state import KIND
from ui.core.view import View
from ui.core.widgets import choose_one
from ui.head.choice import HeadSettings, shared_kinds
from ui.head.exhibits import KINDS, HeadChoice, difference, names_of, stages_of
from ui.work.cache import Computation, computed


def draw_kinds(where: DeltaGenerator, *traces: Trace) -> None:
    """Draw the control for the kinds of attention that all traces have, if there are several."""
    kinds = shared_kinds(traces)
    if len(kinds) > 1:
        names = {kind: KINDS[kind][0] for kind in kinds}
        choose_one("Kind of attention", KIND, names, where, *HeadSettings.of("request"))


def stages_at(place: HeadChoice) -> Computation[HeadStages]:
    """Return the computation behind `get_stages`."""
    return Computation("head", place, stages_of(place))


def get_stages(view: View, place: HeadChoice) -> HeadStages:
    """Return the numbers of one query in one head."""
    return computed(view, *stages_at(place))


def draw_stages(
    side: Side, place: HeadChoice, chosen: Chosen, on_choose: Callable[[Chosen], None]
) -> None:
    """Mount the stages; two sides line up stage by stage."""
    stages = get_stages(side.view, place)
    head_stages(
        stages, names=names_of(place, side.trace), difference=difference(stages, side.trace),
        chosen=chosen, on_choose=on_choose, key=side.key("stages"),
        group="compare" if side.letter else "",
    )  # fmt: skip
