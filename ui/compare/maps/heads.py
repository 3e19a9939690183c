"""Heads matched across two models: all similarities, and the chosen pair side by side."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import streamlit as st

from figures.exhibit import Exhibit, file_stem
from transformer.measures.agreement import Matching
from transformer.measures.compare import SIMILARITY_RULE, HeadPair
from transformer.types import AttentionKind
from ui.attention.maps import KIND_TEXTS
from ui.compare.choice import OTHER_HEAD, OTHER_LAYER, Setup, can_follow
from ui.compare.maps.exhibits import heads_exhibit, likeness
from ui.compare.maps.matching import get_matching, greedy_sources, matching, work_of
from ui.compare.maps.views import PARAMS, Both, draw_lens, open_maps
from ui.compare.sides import CompareRoom, Download, Pair, compared
from ui.components.match import head_name
from ui.components.match.mount import head_matches
from ui.core import url_state
from ui.core.url_state import HEAD, LAYER
from ui.work.progress import stopped


def _draw(pair: Pair) -> Download | None:
    """Draw the matching, and one pair of it side by side."""
    both = open_maps(pair, "matrix", displays=False)
    return None if both is None else _draw_heads(both)


def _draw_heads(both: Both) -> Download | None:
    setup = both.setup
    if setup.pairing == "sentences":
        st.info(
            "Matching is between two models. Choose two checkpoints above.", icon=":material/info:"
        )
        return None
    found = get_matching(setup, both.kind)
    if found is None:
        if not stopped(work_of(setup)):
            st.info("In no sentence do both models see the same words, so no heads compare.")
        return None
    pair = chosen_pair(both, found)
    table, maps = st.columns([0.33, 0.67], gap="large")
    with table.container():
        st.markdown(_summary(found))
        head_matches(
            likeness(found, both.kind, setup.names), chosen=pair, key="compare_match",
            on_choose=lambda pair: choose_pair(pair, found.shapes),
        )  # fmt: skip
    with maps.container():
        _pair_box(found, pair)
        cells = [_cell(at, shape) for at, shape in zip(pair, found.shapes, strict=True)]
        shown = replace(
            both,
            choices=(
                replace(both.choices[0], cell=cells[0]), replace(both.choices[1], cell=cells[1]),
            ),
        )  # fmt: skip
        for side, column in enumerate(st.columns(2, gap="medium")):
            with column.container():
                draw_lens(shown, side, f"compare_pair_{side}", 380)
    st.caption(f"{SIMILARITY_RULE} {_how(found)}")
    name = file_stem("heads matched", KIND_TEXTS[both.kind].name)
    return Download(partial(make_heads, setup, both.kind, pair), name)


def make_heads(setup: Setup, kind: AttentionKind, chosen: HeadPair) -> Exhibit:
    """Return the figure of the matching, made outside of the session."""
    found = matching(setup, kind)
    if found is None:
        raise ValueError("no sentence has the same words in both models")
    return heads_exhibit(
        found, likeness(found, kind, setup.names), kind, chosen, compared(setup),
        greedy_sources(setup), follow=can_follow(setup.right),
    )  # fmt: skip


def chosen_pair(both: Both, found: Matching) -> HeadPair:
    """Return the stored pair, else the most similar one of the matching."""
    cells = [choice.cell for choice in both.choices]
    at = [
        cell[0] * shape[1] + cell[1] if cell[0] is not None and cell[1] is not None else None
        for cell, shape in zip(cells, found.shapes, strict=True)
    ]
    if at[0] is not None and at[1] is not None and url_state.get(OTHER_LAYER) != "same":
        return at[0], at[1]
    if at[0] is not None:  # a head of A, by itself: beside its match
        return next((pair for pair in found.pairs if pair[0] == at[0]), _best(found))
    return _best(found)


def choose_pair(pair: HeadPair, shapes: tuple[tuple[int, int], tuple[int, int]]) -> None:
    """Store these two heads, for this section and the others."""
    (layer, head), (other_layer, other_head) = (
        _cell(at, shape) for at, shape in zip(pair, shapes, strict=True)
    )
    url_state.put(LAYER, layer + 1)
    url_state.put(HEAD, head + 1)
    url_state.put(OTHER_LAYER, str(other_layer + 1))
    url_state.put(OTHER_HEAD, str(other_head + 1))


def _summary(found: Matching) -> str:
    said = f"**{len(found.pairs)} pairs of heads, {found.mean:.2f} alike on average**"
    in_place = found.in_place
    return said if in_place is None else f"{said}; heads in the same place: {in_place:.2f}."


def _how(found: Matching) -> str:
    count = f"{found.sentences} example sentence{'' if found.sentences == 1 else 's'}"
    left_out = (
        f" {found.left_out} more were left out, because the two models see different words."
        if found.left_out else ""
    )  # fmt: skip
    return (
        f"Over whole words of {count}, all rows alike; B follows A's greedy translations. Heads "
        f"are matched so that the sum of similarities is the largest there is.{left_out}"
    )


def _pair_box(found: Matching, pair: HeadPair) -> None:
    """List the pairs by name, most similar first: for the keyboard and for small screens."""
    ordered = sorted(found.pairs, key=lambda each: -found.values[each])
    options = ordered if pair in ordered else [pair, *ordered]
    if st.session_state.get("compare_pair_box") != pair:
        st.session_state["compare_pair_box"] = pair

    def take() -> None:
        choose_pair(st.session_state["compare_pair_box"], found.shapes)

    def named(each: HeadPair) -> str:
        one, other = (head_name(at, shape) for at, shape in zip(each, found.shapes, strict=True))
        matched = "" if each in ordered else ", not matched"
        return f"A {one} and B {other}: {found.values[each]:.3f} alike{matched}"

    st.selectbox(
        "Pair of heads, most alike first", options, key="compare_pair_box", on_change=take,
        format_func=named, label_visibility="collapsed",
    )  # fmt: skip


def _best(found: Matching) -> HeadPair:
    return max(found.pairs, key=lambda pair: found.values[pair])


def _cell(at: int, shape: tuple[int, int]) -> tuple[int, int]:
    return divmod(at, shape[1])


ROOM = CompareRoom("heads", _draw, title="Heads matched", params=PARAMS, follows=True)
