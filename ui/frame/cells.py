"""The control "A cell shows": the measure that every map on screen holds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import streamlit as st

from figures.labels import decimal
from transformer.attribution.cells import (
    CELL_MEASURES,
    CellMeasure,
    Place,
    measured,
    why_no_effect,
    why_weight_only,
)
from transformer.measures.heads import rank_correlation
from transformer.trace.records import Trace
from ui.core import url_state
from ui.core.choice import Choice
from ui.core.glossary import term
from ui.core.side import Side
from ui.core.url_state import Param
from ui.core.view import View
from ui.core.widgets import UNITS, bound, units_control
from ui.work.desk import computed, get_trace, get_tracer
from ui.work.results import Computation


@dataclass(frozen=True)
class CellChoice(Choice):
    """URL settings of all maps."""

    cell: Param[str] = Param("cell", url_state.one_of(CELL_MEASURES), "weight")
    words_only: Param[bool] = url_state.switch("words_only")
    check: Param[bool] = url_state.switch("check")  # whether measures are compared with the effect


#: Label, glossary entry, and what a measure shows and what not.
TEXTS: dict[CellMeasure, tuple[str, str, str]] = {
    "weight": (
        "Weight", "attention",
        "The share of a query's attention on a key. It does not tell what the model takes from it.",
    ),
    "norm": (
        "Norm", "norm of an edge",
        "The length of the vector that the query takes from the key, as a share of the row. It "
        "does not tell where the vector points.",
    ),
    "zeroing": (
        "Value zeroing", "value zeroing",
        "How far the query's vector after the block turns if the key's value is zero, as a share "
        "of the row. It does not tell what later layers make of it.",
    ),
    "contribution": (
        "Contribution", "contribution",
        "How much the key's vector brings the block's output closer, as a share; in "
        "self-attention, the token's own vector counts with its own key. It does not tell which "
        "word the model predicts.",
    ),
    "effect": (
        "Effect", "effect of an edge",
        "The change of the token's log-probability when the edge is cut before the softmax. The "
        "other weights of the row grow, so effects do not add up.",
    ),
}  # fmt: skip

_TOGETHER = (
    " For all heads of a layer, what they take from a key is added first: it is not the mean of "
    "the heads."
)


def cells_control(view: View, *, units: bool = False) -> None:
    """Draw the control, closed: its label names the measure.

    Args: units: with the switch for whole words, where there is no room beside it.
    """
    label = TEXTS[_stored()][0].lower() + ", words only" * url_state.get(CellChoice.words_only)
    label += ", by words" * (units and url_state.get(UNITS) == "words")
    with st.popover(
        f"A cell shows: {label}", icon=":material/opacity:", type="tertiary", key="cells"
    ):
        if units:
            units_control()
        cells_options(view)


def cells_options(view: View) -> None:
    """Draw the control's options, for a place inside another popover."""
    for param in CellChoice.params():
        url_state.show(param)
    name = st.radio(
        "A cell shows", CELL_MEASURES, format_func=lambda name: TEXTS[name][0],
        captions=[text for _, _, text in TEXTS.values()], **bound(CellChoice.cell),
    )  # fmt: skip
    st.toggle(
        "Words only",
        **bound(CellChoice.words_only),
        help="Set special tokens, tags and punctuation to 0, and divide each row by what is left.",
    )
    st.toggle(
        "Check against the effect", **bound(CellChoice.check),
        help="Rank correlation (Spearman) of each measure with the size of the effect, over the "
        "edges of the map on screen.",
    )  # fmt: skip
    with st.expander("What is this?"):
        st.markdown(term(TEXTS[name][1]))
    if reason := why_weight_only(get_tracer(view)):
        st.caption(reason)


def _stored() -> CellMeasure:
    return next(name for name in CELL_MEASURES if name == url_state.get(CellChoice.cell))


def _refused(view: View, trace: Trace, places: Sequence[Place]) -> str | None:
    """Return why the chosen measure is not on screen, or None."""
    if _stored() == "weight":
        return None
    reason = why_weight_only(get_tracer(view))
    if reason is None and _stored() == "effect":
        if not places:
            return "An effect is measured for one map at a time; here, maps show weights."
        reasons = (why_no_effect(kind, *trace.attention(kind).shape[2:]) for kind, *_ in places)
        reason = next(filter(None, reasons), None)
    return reason


def measured_view(view: View, places: Sequence[Place] = ()) -> View:
    """Return the view whose trace's maps hold the chosen measure.

    Args: places: the maps on screen, for the effect; () if there are several.
    """
    view = replace(view, cells=())
    name, only = _stored(), url_state.get(CellChoice.words_only)
    if name != "weight" and _refused(view, get_trace(view), places):
        name = "weight"
    if name == "weight" and not only:
        return view
    cells: tuple[tuple[str, Any], ...] = (("measure", name),)
    cells += (("places", tuple(places)),) if name == "effect" else ()
    return replace(view, cells=cells + ((("words_only", True),) if only else ()))


def measured_side(side: Side, places: Sequence[Place] = ()) -> Side:
    """Return a side with the chosen measure; see `measured_view`."""
    view = measured_view(side.view, places)
    return side if view is side.view else replace(side, view=view, trace=get_trace(view))


def about_cells(view: View, trace: Trace, places: Sequence[Place]) -> str:
    """Return sentences on what the cells of the map on screen show, with their checks.

    Args: places: the map on screen, first; () if several maps of a kind are.
    """
    if (reason := _refused(view, trace, places)) is not None:
        return reason
    name, only = _stored(), url_state.get(CellChoice.words_only)
    parts = []
    if name != "weight" or only:
        parts.append(TEXTS[name][2] + _TOGETHER * (name not in ("weight", "effect")))
        cells = get_trace(measured_view(view, places)).cells
        if name == "contribution" and cells is not None:
            parts.append(
                "Check: the parts of each block give back its output within "
                f"{decimal(max(cells.gap, 1e-9))} an element."
            )
    if only:
        parts.append(
            "**Words only**: special tokens, tags and punctuation are left out"
            + (", and rows are divided by what is left." if name != "effect" else ".")
        )
    if url_state.get(CellChoice.check) and places:
        parts.append(_told(view, places[0]))
    return " ".join(parts)


def _told(view: View, place: Place) -> str:
    """Return the rank correlations of measures with the effect, in words."""
    trace, model = get_trace(view), get_tracer(view)
    reason = why_weight_only(model) or why_no_effect(place[0], *trace.attention(place[0]).shape[2:])
    if reason is not None:
        return f"No check against the effect: {reason[:1].lower()}{reason[1:]}"
    found = computed(view, agreements(place))
    words = ", ".join(
        f"{TEXTS[name][0].lower()} {value:.2f}" for name, value in found.items()
        if not math.isnan(value)
    )  # fmt: skip
    if not words:
        return "Check: every edge of this map has the same effect, so there is no order to tell."
    return (
        f"Check: of the order of effects in this map, the measures tell (rank correlation) {words}."
    )


def agreements(place: Place) -> Computation[dict[CellMeasure, float]]:
    """Return the computation of each measure's rank correlation with the size of the effect."""
    kind, *at = place

    def make(model: Any, trace: Trace) -> dict[CellMeasure, float]:
        def shown(name: CellMeasure) -> Any:
            cells = measured(model, trace, name, places=(place,)).cells
            assert cells is not None
            return cells.wide[kind][tuple(-1 if index is None else index for index in at)]

        sizes = np.abs(shown("effect"))
        seen = np.ones(sizes.shape, bool)
        if kind == "decoder_self":
            seen = np.tril(seen)
            seen[0] = False  # the first token sees only itself
        names = CELL_MEASURES[:-1]
        return {name: rank_correlation(shown(name)[seen], sizes[seen]) for name in names}

    return Computation("agreements", place, make)
