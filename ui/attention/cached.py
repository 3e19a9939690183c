"""The Attention page's data for a view's trace, computed once and shared by all sessions."""

from __future__ import annotations

from dataclasses import replace

from transformer.trace.records import Trace
from transformer.types import AttentionKind
from ui.attention.maps import AttentionChoice, Maps, drawing_of, kinds_of, maps_of, sheet_of, tab_of
from ui.components.grid import MOST_AT_ONCE, Sheet, Tab
from ui.components.lines import Drawing
from ui.core.view import View
from ui.work.cache import Computation, Plan, computed


def get_maps(view: View, trace: Trace, choice: AttentionChoice) -> Maps:
    """Return `maps_of`, cached when words have to be merged."""
    if choice.units == "tokens":
        return maps_of(trace, choice.kind, choice.units)
    return computed(view, *_by_words(choice.kind, choice.units))


def get_sheet(view: View, choice: AttentionChoice) -> Sheet:
    """Return the grid of all maps."""
    return computed(view, *_sheet(choice))


def get_tabs(view: View, trace: Trace, choice: AttentionChoice) -> dict[str, Tab]:
    """Return the grid's tab for every kind, with its maps if they are sent now."""
    sheets = {kind: get_sheet(view, replace(choice, kind=kind)) for kind in _at_once(trace, choice)}
    return {kind: tab_of(trace, kind, sheets.get(kind)) for kind in kinds_of(trace)}


def largest(view: View, trace: Trace, choice: AttentionChoice) -> tuple[int, int]:
    """Return the most heads per layer and the longest axis over all kinds, in the view's units."""
    shown = [get_maps(view, trace, replace(choice, kind=kind)) for kind in kinds_of(trace)]
    longest = max(max(len(maps.queries), len(maps.keys)) for maps in shown)
    return max(maps.weights.shape[1] for maps in shown), longest


def get_drawing(view: View, choice: AttentionChoice) -> Drawing:
    """Return the lines of the chosen heads."""
    return computed(view, *_drawing(choice))


def plan_of(trace: Trace, choice: AttentionChoice) -> Plan:
    """Everything one view of the page needs, to be computed in one job."""
    if choice.units != "tokens":
        for kind in kinds_of(trace) if choice.display == "grid" else (choice.kind,):
            yield _by_words(kind, choice.units)
    if choice.display == "grid":
        for kind in _at_once(trace, choice):
            yield _sheet(replace(choice, kind=kind))
    elif choice.display == "heads":
        yield _drawing(choice)


def _at_once(trace: Trace, choice: AttentionChoice) -> list[AttentionKind]:
    """The kinds whose grids are sent together: all of them if they are small enough."""
    kinds = kinds_of(trace)
    quick = sum(trace.attention(kind).size for kind in kinds) <= MOST_AT_ONCE
    return [kind for kind in kinds if quick or kind == choice.kind]


def _by_words(kind: AttentionKind, units: str) -> Computation[Maps]:
    return Computation("words", (kind, units), lambda _, trace: maps_of(trace, kind, units))


def _sheet(choice: AttentionChoice) -> Computation[Sheet]:
    return Computation(
        "grid", (choice.kind, choice.units, choice.how, choice.dim),
        lambda _, trace: sheet_of(maps_of(trace, choice.kind, choice.units), choice),
    )  # fmt: skip


def _drawing(choice: AttentionChoice) -> Computation[Drawing]:
    return Computation(
        "lines", (choice.kind, choice.units, choice.heads, choice.mass, choice.dim),
        lambda _, trace: drawing_of(maps_of(trace, choice.kind, choice.units), choice),
    )  # fmt: skip
