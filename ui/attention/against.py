"""Texts below a map, and beside the matrix a second measure with the cells that disagree."""

from dataclasses import replace

import numpy as np
import streamlit as st

from figures.labels import cell_name, plain, reads, signed
from transformer.measures.heads import ranks
from transformer.trace.records import CELL_MEASURES
from ui.attention.choice import get_maps, places_of
from ui.attention.maps import AttentionChoice, shown_map
from ui.components.lens import Map
from ui.components.mount import show
from ui.core import url_state
from ui.core.glossary import CELL_TEXTS
from ui.core.view import View
from ui.core.widgets import CellChoice, bound
from ui.frame.cells import about_cells, measured_view, why_not_measure
from ui.frame.sinks import draw_sinks
from ui.work.desk import get_trace

MOST = 3  # cells that are framed
SMALL = 0.1  # of a map's largest: cells below it by both measures have no rank but noise


def say_measure(view: View, choice: AttentionChoice, *, check: bool = False) -> None:
    """Say below a map what its cells show, and which keys get its attention."""
    if text := about_cells(view.of_weights, places_of(choice), check=check):
        st.caption(text)
    draw_keys(view, choice)


def draw_keys(view: View, choice: AttentionChoice, key: str = "every") -> None:
    """Draw the attention of a map by class of key and, beside words only, the map with every key.

    Of lines, it is the map of the first head.
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
    """Return both maps with frames around the cells whose ranks differ most, and sentences."""
    if not isinstance(other, Map):
        return one, other, []
    sizes = [np.abs(shown.weights) for shown in (one, other)]
    whole = np.ones(sizes[0].shape, bool)
    seen = np.tril(whole) if one.causal else whole
    places = [np.zeros(seen.shape), np.zeros(seen.shape)]
    for place, size in zip(places, sizes, strict=True):
        place[seen] = seen.sum() + 1 - ranks(size[seen])  # 1 is the largest
    small = np.maximum(*(size / (size[seen].max() or 1) for size in sizes)) < SMALL
    gaps = np.where(small, 0, np.abs(places[0] - places[1]))
    order = np.argsort(-gaps, axis=None, kind="stable")[: min(MOST, np.count_nonzero(gaps))]
    cells = tuple(divmod(int(at), gaps.shape[1]) for at in order)
    nouns = [shown.noun or "attention weight" for shown in (one, other)]
    sentences = []
    for query, key in cells:
        parts = (
            f"{noun} {signed(shown.weights[query, key])} (rank {place[query, key]:.0f})"
            for noun, shown, place in zip(nouns, (one, other), places, strict=True)
        )
        edge = plain(reads(one.query_tokens[query], one.key_tokens[key]))
        sentences.append(f"{edge}: {', '.join(parts)}.")
    return replace(one, ringed=cells), replace(other, ringed=cells), sentences


def draw_beside(other: Map | str, sentences: list[str]) -> None:
    """Draw the control, and the second map with the cells where the two disagree most."""
    names = {name: f"Beside it: {texts['label'].lower()}" for name, texts in CELL_TEXTS.items()}
    st.selectbox(
        "Second measure", CELL_MEASURES, format_func=names.__getitem__,
        label_visibility="collapsed", **bound(CellChoice.against),
    )  # fmt: skip
    if not isinstance(other, Map):
        st.caption(other)
        return
    show(other.lens(300), key="against")
    st.markdown(
        "\n".join(
            ["Where they disagree most (rank 1 is the largest):\n", *map("- {}".format, sentences)]
        )
    )
