"""What the Attention page shows of a view's trace, made once for all sessions."""

from __future__ import annotations

from dataclasses import replace

from transformer.trace.records import Trace
from ui.attention.choice import AttentionChoice, kinds_of
from ui.attention.maps import Maps, drawing_of, maps_of, sheet_of, tab_of
from ui.components.grid import MOST_AT_ONCE, Sheet, Tab
from ui.components.lines import Drawing
from ui.core.view import View
from ui.work.computed import computed


def get_maps(view: View, trace: Trace, choice: AttentionChoice) -> Maps:
    """`maps_of`, made once where it takes work."""
    if choice.units == "tokens":
        return maps_of(trace, choice.kind, choice.units)
    kind, units = choice.kind, choice.units
    return computed(view, "words", (kind, units), lambda _, trace: maps_of(trace, kind, units))


def get_sheet(view: View, choice: AttentionChoice) -> Sheet:
    """What the grid shows."""
    return computed(
        view, "grid", (choice.kind, choice.units, choice.how, choice.dim),
        lambda _, trace: sheet_of(maps_of(trace, choice.kind, choice.units), choice),
    )  # fmt: skip


def get_tabs(view: View, trace: Trace, choice: AttentionChoice) -> dict[str, Tab]:
    """What the grid shows of every kind: all maps at once as long as that is quick."""
    kinds = kinds_of(trace)
    at_once = sum(trace.attention(kind).size for kind in kinds) <= MOST_AT_ONCE
    tabs: dict[str, Tab] = {}
    for kind in kinds:
        sheet = None
        if at_once or kind == choice.kind:
            sheet = get_sheet(view, replace(choice, kind=kind))
        tabs[kind] = tab_of(trace, kind, sheet)
    return tabs


def largest(view: View, trace: Trace, choice: AttentionChoice) -> tuple[int, int]:
    """The most heads in a layer and the longest axis of all kinds, in the units of the view."""
    shown = [get_maps(view, trace, replace(choice, kind=kind)) for kind in kinds_of(trace)]
    longest = max(max(len(maps.queries), len(maps.keys)) for maps in shown)
    return max(maps.weights.shape[1] for maps in shown), longest


def get_drawing(view: View, choice: AttentionChoice) -> Drawing:
    """The lines of the chosen heads."""
    return computed(
        view, "lines", (choice.kind, choice.units, choice.heads, choice.mass, choice.dim),
        lambda _, trace: drawing_of(maps_of(trace, choice.kind, choice.units), choice),
    )  # fmt: skip
