"""The measure that every map on screen shows, as chosen in `ui.core.widgets.cells_control`."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from figures.labels import decimal
from transformer.attribution.cells import (
    Place,
    measured,
    why_no_effect,
    why_too_long,
    why_weight_only,
)
from transformer.measures.heads import combine, rank_correlation
from transformer.trace.records import CELL_MEASURES, CellMeasure, Trace
from ui.core import url_state
from ui.core.glossary import CELL_TEXTS, linked
from ui.core.view import Side, View
from ui.core.widgets import CellChoice, cell_measure, weights_alone
from ui.work.desk import computed, get_trace, get_tracer
from ui.work.results import Computation

#: Rows of `benchmarks/measures.py predict` by checkpoint.
_STORED: dict[str, list[dict[str, Any]]] = json.loads(
    Path(__file__).with_name("measures.json").read_text("utf-8")
)

_TOGETHER = (
    " For all heads of a layer, what they take from a key is added first: it is not the mean of "
    "the heads."
)


def why_not_measure(view: View, places: Sequence[Place], name: str = "") -> str | None:
    """Return why a measure, by default the chosen one, is not on screen, or None."""
    name = name or cell_measure()
    if name == "weight":
        return None
    trace = get_trace(view)
    reason = why_weight_only(get_tracer(view)) or why_too_long(trace)
    if reason is None and name == "effect":
        if not places:
            return "An effect is measured for one map at a time; here, maps show weights."
        reasons = (why_no_effect(kind, *trace.attention(kind).shape[2:]) for kind, *_ in places)
        reason = next(filter(None, reasons), None)
    return reason


def measured_view(
    view: View, places: Sequence[Place] = (), name: str = "", *, every: bool = False
) -> View:
    """Return the view whose trace's maps hold a measure, by default the chosen one.

    Args:
        places: the maps on screen, for the effect; () if there are several.
        every: with every key, even if words alone are chosen.
    """
    only = not every
    return view if weights_alone() and not (view.cells or name) else _of(view, places, name, only)


def _of(view: View, places: Sequence[Place], name: str, only: bool) -> View:
    view = view.of_weights
    name, only = name or cell_measure(), only and url_state.get(CellChoice.words_only)
    if name != "weight" and why_not_measure(view, places, name):
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


def about_cells(view: View, places: Sequence[Place], *, check: bool = False) -> str:
    """Return sentences on what the cells of the map on screen show, with their checks.

    Args:
        places: the map on screen, first; () if several maps of a kind are.
        check: compare measures with the effect, even if the visitor has not asked for it.
    """
    if weights_alone() and not check:
        return ""
    return _about(view.of_weights, places, check or url_state.get(CellChoice.check))


def _about(view: View, places: Sequence[Place], check: bool) -> str:
    if (reason := why_not_measure(view, places)) is not None:
        return reason
    name, only = cell_measure(), url_state.get(CellChoice.words_only)
    parts = []
    if name != "weight" or only or check:
        said = "**{label}.** {text}".format_map(CELL_TEXTS[name])
        parts.append(said + _TOGETHER * (name not in ("weight", "effect")))
    if only:
        parts.append(
            "**Words only**: special tokens, tags and punctuation are left out"
            + (", and rows are divided by what is left." if name != "effect" else ".")
        )
    if check and places:
        parts += [_rows(view, places), _told(view, places[0])]
    return " ".join(filter(None, parts))


def _rows(view: View, places: Sequence[Place]) -> str:
    """Return the check of the map on screen by itself."""
    trace = get_trace(measured_view(view, places))
    kind, *at = places[0]
    if cell_measure() == "effect":
        return ""
    weights = trace.attention(kind)
    shown = trace.cells.at(*places[0]) if trace.cells else combine(weights, "mean", *at)
    sums = shown.sum(-1)[shown.any(-1)]
    low, high = f"{sums.min():.2f}", f"{sums.max():.2f}"
    text = f"{len(sums)} of {len(shown)} rows add" if len(sums) < len(shown) else "Every row adds"
    text += f" up to {f'{low} to {high}' if low < high else high.removesuffix('.00')}"
    stream = kind == "cross" and cell_measure() == "contribution" and low < "1.00"
    text += "; the stream has the rest." if stream else "."
    if trace.cells and trace.cells.gap:
        gap = decimal(max(trace.cells.gap, 1e-9))
        text += f" The parts of every block add up to its output, to within {gap} in each number."
    return text


def _told(view: View, place: Place) -> str:
    """Return the rank correlations of measures with the effect, as a table."""
    if (reason := why_not_measure(view, (place,), "effect")) is not None:
        return f"No check against the effect: {reason[:1].lower()}{reason[1:]}"
    found = computed(view, agreements(place))
    named = [name for name, value in found.items() if not math.isnan(value)]
    if not named:
        return "Every edge of this map has the same effect, so there is no order to predict."
    labels = [CELL_TEXTS[name]["label"].lower() for name in named]
    columns = [["measure", *labels], ["this sentence", *(f"{found[name]:.2f}" for name in named)]]
    where = "all" if place[1] is None else str(place[1] + 1)
    if rows := {  # the same over many sentences, if the benchmark has measured this model
        row["measure"]: row for row in _STORED.get(view.checkpoint, ())
        if (row["kind"], row["layer"]) == (place[0], where) and not view.entry.ref.edits
    }:  # fmt: skip
        many = "{correlation:.2f} ({low:.2f} to {high:.2f})"
        cut = "all layers" if where == "all" else f"layer {where}"
        about = f"{rows['weight']['sentences']:.0f} test sentences, cut in all heads of {cut}"
        columns.append([about, *(many.format_map(rows[name]) for name in named)])
    lines = [f"| {' | '.join(line)} |" for line in zip(*columns, strict=True)]
    table = "\n".join([lines[0], "|---" * len(columns) + "|", *lines[1:]])
    title = "How well each measure predicts the order of effects (rank correlation; 1 is perfect):"
    return linked(f"{title}\n\n{table}\n\n", "rank correlation", *labels)


def agreements(place: Place) -> Computation[dict[CellMeasure, float]]:
    """Return the computation of each measure's rank correlation with the size of the effect."""

    def make(model: Any, trace: Trace) -> dict[CellMeasure, float]:
        def shown(name: CellMeasure) -> Any:
            cells = measured(model, trace, name, places=(place,)).cells
            assert cells is not None
            return cells.at(*place)

        sizes = np.abs(shown("effect"))
        seen = np.ones(sizes.shape, bool)
        if place[0] == "decoder_self":
            seen = np.tril(seen)
            seen[0] = False  # the first token sees only itself
        names = CELL_MEASURES[:-1]
        return {name: rank_correlation(shown(name)[seen], sizes[seen]) for name in names}

    return Computation("agreements", place, make)
