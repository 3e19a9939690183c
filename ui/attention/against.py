"""Texts below a map, and beside the matrix a second measure with the cells that disagree."""

from dataclasses import replace

import numpy as np
import streamlit as st

from figures.labels import code, plain_token
from transformer.measures.heads import ranks
from transformer.trace.records import CELL_MEASURES
from ui.attention.choice import get_maps, places_of
from ui.attention.maps import AttentionChoice, shown_map
from ui.components.lens import Map
from ui.components.mount import show
from ui.core import url_state
from ui.core.glossary import CELL_TEXTS
from ui.core.view import View
from ui.core.widgets import CellChoice, cell_measure, raw_box
from ui.frame.cells import about_cells, measured_view, why_not_measure
from ui.frame.sinks import draw_sinks
from ui.work.desk import get_trace

MOST = 3  # cells that are ringed


def say_measure(view: View, choice: AttentionChoice) -> None:
    """Say below a map what its cells show, and which keys get its attention."""
    weights, places = replace(view, cells=()), places_of(choice)
    trace = get_trace(weights)
    if text := about_cells(weights, places):
        st.caption(text)
    if places:
        draw_sinks(weights, trace, places[0])


def draw_choice() -> None:
    """Draw the control for the second measure."""
    names = {"none": "sums over chosen tokens"} | {
        name: f"the same map by {CELL_TEXTS[name]['label'].lower()}"
        for name in CELL_MEASURES if name != cell_measure()
    }  # fmt: skip
    stored = url_state.get(CellChoice.against)
    raw_box(
        st.container(), "Beside the map", CellChoice.against, [*names],
        stored if stored in names else "none", key="against_widget",
        named=lambda name: f"Beside it: {names[name]}",
    )  # fmt: skip


def other_map(view: View, choice: AttentionChoice) -> Map | str | None:
    """Return the same map by the second measure, why there is none, or None if none is chosen."""
    name, places = url_state.get(CellChoice.against), places_of(choice)
    if name in ("none", cell_measure()):
        return None
    weights = replace(view, cells=())
    if (reason := why_not_measure(weights, places, name)) is not None:
        return reason
    other = measured_view(weights, places, name)
    return shown_map(get_maps(other, get_trace(other), choice), choice)


def ringed(one: Map, other: Map | str | None) -> tuple[Map, Map | str | None, list[str]]:
    """Return both maps with rings around the cells whose ranks differ most, and sentences."""
    if not isinstance(other, Map):
        return one, other, []
    sizes = [np.abs(shown.weights) for shown in (one, other)]
    seen = np.ones(sizes[0].shape, bool)
    if one.causal:
        seen = np.tril(seen)
    places = [np.zeros(seen.shape), np.zeros(seen.shape)]
    for place, size in zip(places, sizes, strict=True):
        place[seen] = seen.sum() + 1 - ranks(size[seen])  # 1 is the largest
    gaps = np.abs(places[0] - places[1])
    order = np.argsort(-gaps, axis=None, kind="stable")[: min(MOST, np.count_nonzero(gaps))]
    cells = tuple(divmod(int(at), gaps.shape[1]) for at in order)
    nouns = [shown.noun or "attention weight" for shown in (one, other)]
    sentences = []
    for query, key in cells:
        parts = (
            f"{noun} {shown.weights[query, key]:.2f}, rank {place[query, key]:.0f}"
            for noun, shown, place in zip(nouns, (one, other), places, strict=True)
        )
        edge = (code(plain_token(one.query_tokens[query])), code(plain_token(one.key_tokens[key])))
        sentences.append(f"{edge[0]} to {edge[1]}: {'; '.join(parts)}, of {seen.sum()}.")
    return replace(one, ringed=cells), replace(other, ringed=cells), sentences


def draw_beside(other: Map | str | None, sentences: list[str]) -> bool:
    """Draw the control, and the second map with the cells where the two disagree most.

    Returns: False if no second measure is chosen.
    """
    draw_choice()
    if isinstance(other, Map):
        show(other.lens(300), key="against")
        st.markdown("Where they disagree most (ringed):")
        for sentence in sentences:
            st.markdown(f"- {sentence}")
    elif other is not None:
        st.caption(other)
    return other is not None
