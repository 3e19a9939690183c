"""Texts below a map, and a second measure beside it with the cells that disagree."""

from dataclasses import replace

import numpy as np
import streamlit as st

from figures.labels import cell_name, plain, reads, signed
from transformer.trace.records import CELL_MEASURES
from ui.attention.choice import get_maps, places_of
from ui.attention.maps import AttentionChoice, largest_cells, shown_map
from ui.components.lens import Map
from ui.components.mount import show
from ui.core import url_state
from ui.core.glossary import CELL_TEXTS
from ui.core.view import View
from ui.core.widgets import CellChoice, bound, cell_measure
from ui.frame.cells import about_cells, measured_view, why_not_measure
from ui.frame.page import link_to
from ui.frame.sinks import draw_sinks
from ui.work.desk import get_trace

SMALL = 0.1  # of a map's largest: smaller differences are not named
_FOOT = 11.0  # rem for a class below the cells of both maps, with the list


def say_measure(view: View, choice: AttentionChoice, *, check: bool = False) -> None:
    """Say below a map what its cells show, and which keys get its attention."""
    if text := about_cells(view.of_weights, places_of(choice), check=check):
        st.caption(text)
    if "effect" in (cell_measure(), url_state.get(CellChoice.against) * check):
        link_to("removals", "Take out whole heads")
    draw_keys(view, choice)


def draw_keys(view: View, choice: AttentionChoice, key: str = "every") -> None:
    """Draw the attention of a map by class of key and, beside words only, the map with every key.

    For lines, use the map of the first head.
    """
    lines = [(choice.kind, *head) for head in choice.heads[:1] if choice.display == "heads"]
    for place in (*places_of(choice), *lines):
        if len(choice.heads) > 1 and lines:
            st.caption(f"{cell_name(choice.heads[0]).capitalize()}:")
        draw_sinks(view.of_weights, get_trace(view.of_weights), place)
        if url_state.get(CellChoice.words_only):
            every = measured_view(view, [place], every=True)
            alone = replace(choice, display="matrix", cell=place[1:], chosen=False)
            st.caption("The same map with every key:")
            show(shown_map(get_maps(every, get_trace(every), alone), alone).lens(260), key=key)


def other_map(view: View, choice: AttentionChoice) -> Map | str:
    """Return the same map by the second measure, or why there is none."""
    name, places = url_state.get(CellChoice.against), places_of(choice)
    weights = view.of_weights
    if (reason := why_not_measure(weights, places, name)) is not None:
        return reason
    other = measured_view(weights, places, name)
    return shown_map(get_maps(other, get_trace(other), choice), choice)


def ringed(one: Map, other: Map | str) -> tuple[Map, Map | str, list[str]]:
    """Return both maps, framed at cells that are large in one map alone, and sentences."""
    if not isinstance(other, Map):
        return one, other, []
    shares = [np.abs(shown.weights) / (np.abs(shown.weights).max() or 1) for shown in (one, other)]
    gaps = np.abs(shares[0] - shares[1])
    cells = largest_cells(gaps, SMALL)
    sentences = []
    for at in cells:
        parts = []
        for shown, share in zip((one, other), shares, strict=True):
            noun, _, unit = (shown.noun or "weight").partition(" in ")
            value = f"{signed(shown.weights[at])} {unit}".strip()
            parts.append((share[at], f"{share[at]:.0%} of the largest {noun} ({value})"))
        (_, small), (_, large) = sorted(parts)
        edge = plain(reads(one.query_tokens[at[0]], one.key_tokens[at[1]]))
        sentences.append(f"**{edge}**: {large}, but {small}.")
    one, other = (
        replace(shown, ringed=(*shown.ringed, *cells), foot=_FOOT) for shown in (one, other)
    )
    return one, other, sentences


def choose_second() -> None:
    """Draw the control of the second measure."""
    names = {name: f"Beside it: {texts['label'].lower()}" for name, texts in CELL_TEXTS.items()}
    st.selectbox(
        "Second measure", CELL_MEASURES, format_func=names.__getitem__, width=200,
        label_visibility="collapsed", **bound(CellChoice.against),
    )  # fmt: skip
