"""The page "Inside a head": the control for the kind of attention, and one head's stages."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from figures.labels import KIND_NAMES, code, plain_token, query_labels
from transformer.measures.entropy import divided, spread
from transformer.trace.records import HeadStages, Trace
from transformer.types import AttentionKind
from ui.components.mount import show
from ui.components.stages import Chosen, stages_component
from ui.core import url_state
from ui.core.glossary import term
from ui.core.side import OTHER_HEAD, OTHER_LAYER, Side, other
from ui.core.url_state import HEAD, KIND, LAYER, Param
from ui.core.view import View
from ui.core.widgets import choose_one, raw_box
from ui.export.download import figure_for
from ui.frame.beside import Beside, Changes, Maker, Pair, draw_cell
from ui.head.choice import HeadSettings, chosen_now, keep_chosen, kind_now, place_of, shared_kinds
from ui.head.exhibits import (
    HeadChoice,
    arguments,
    difference,
    inside_head,
    names_of,
    stages_of,
)
from ui.work.desk import computed
from ui.work.results import Computation


def draw_kinds(where: DeltaGenerator, *traces: Trace) -> None:
    """Draw the control for the kinds of attention that all traces have, if there are several."""
    kinds = shared_kinds(traces)
    if len(kinds) > 1:
        names = {kind: KIND_NAMES[kind] for kind in kinds}
        choose_one("Kind of attention", KIND, names, where)


def stages_at(place: HeadChoice) -> Computation[HeadStages]:
    """Return the computation behind `get_stages`."""
    return Computation("head", place, stages_of(place))


def get_stages(view: View, place: HeadChoice) -> HeadStages:
    """Return the numbers of one query in one head."""
    return computed(view, stages_at(place))


def draw_stages(
    side: Side, place: HeadChoice, chosen: Chosen, on_choose: Callable[[Chosen], None]
) -> None:
    """Mount the stages; two sides line up stage by stage."""
    stages = get_stages(side.view, place)
    shown = stages_component(
        stages, names=names_of(place, side.trace), difference=difference(stages, side.trace),
        chosen=chosen, group="compare" if side.letter else "",
    )  # fmt: skip
    show(shown, key=side.key("stages"), on_choose=on_choose)


def _draw_kinds(pair: Pair) -> bool:
    """Draw the kinds of attention that both have, and store one; False if there are none."""
    traces = [side.trace for side in pair.shown]
    if not traces:
        return True
    if not shared_kinds(traces):
        st.info("One model reads and the other writes: they have no kind of attention in common.")
        return False
    draw_kinds(pair.controls, *traces)
    url_state.put(KIND, kind_now(*traces))
    return True


def _queries_as_a(side: Side, kind: AttentionKind) -> bool:
    """Return True if side B has the queries of A, so that one choice holds for both."""
    first = side.first
    return first is not None and query_labels(first.trace, kind) == query_labels(side.trace, kind)


def _place(side: Side) -> HeadChoice:
    """Return the place of a side; B follows A unless it has a choice of its own."""
    kind = kind_now(side.trace)
    first = _place(side.first) if side.first else None
    query, wanted = url_state.get(side.own(HeadSettings.query)), side.cell_now()
    if first is not None:
        wanted = side.cell_now((first.layer + 1, first.head + 1))
        query = first.query + 1 if _queries_as_a(side, kind) else query
    at = url_state.indices((*wanted, query), side.trace.attention(kind).shape)
    return place_of(side.view, side.trace, kind, *at)


def _key_of(side: Side) -> Param[int | None]:
    """Return the setting of a side's key: that of A, where both have the same keys."""
    first, kind = side.first, kind_now(side.trace)
    same = first and first.trace.axis_tokens(kind)[1] == side.trace.axis_tokens(kind)[1]
    return HeadSettings.key if same else side.own(HeadSettings.key)


def _draw_side(side: Side) -> None:
    place, key = _place(side), _key_of(side)
    at, query = chosen_now(side.trace, place, key), names_of(place, side.trace)[0]
    st.markdown(f"{side.lead}{_in_numbers(get_stages(side.view, place), at, query)}")
    draw_stages(side, place, at, partial(keep_chosen, param=key))


def _settings(side: Side) -> Changes:
    place = _place(side)
    return {
        KIND: place.kind, LAYER: place.layer + 1, HEAD: place.head + 1,
        HeadSettings.query: place.query + 1,
        HeadSettings.key: chosen_now(side.trace, place, _key_of(side)).key + 1,
    }  # fmt: skip


def _figure(side: Side) -> Maker:
    place = _place(side)
    choice = arguments(place, chosen_now(side.trace, place, _key_of(side)))
    return partial(figure_for, side.view, inside_head, **choice)


def _draw_boxes(side: Side) -> None:
    place = _place(side)
    counts = side.trace.attention(place.kind).shape
    queries = query_labels(side.trace, place.kind)
    first = _place(side.first) if side.first else None
    boxes = st.columns([5, 5, 6], gap="small")
    at = [(place.layer, first and first.layer), (place.head, first and first.head)]
    raws = [
        "same" if url_state.get(param) == "same" and own == others else str(own + 1)
        for param, (own, others) in zip(side.cell_params, at, strict=True)
    ]
    draw_cell(side, boxes[:2], counts, raws, same=first is not None)
    if _queries_as_a(side, place.kind):
        boxes[2].caption(f"Query {code(plain_token(queries[place.query]))}, as A")
        return
    raw_box(
        boxes[2], f"{side.letter} query", side.own(HeadSettings.query), _numbers(counts[2]),
        str(place.query + 1), key=side.key("head_query_box"),
        named=lambda raw: f"{raw}  {plain_token(queries[int(raw) - 1])}", help=term("query"),
    )  # fmt: skip


def _numbers(count: int) -> list[str]:
    return [str(number) for number in range(1, count + 1)]


def _in_numbers(stages: HeadStages, chosen: Chosen, query: str) -> str:
    """Describe the head in one line of numbers."""
    weights = stages.scaled.weights
    if chosen.divisor is not None:
        most = 2 * math.sqrt(len(stages.q))  # where the slider ends
        divisor = min(chosen.divisor, most)
        added = 0.0 if stages.relative is None else divisor * stages.relative
        weights = divided(stages.dots + added, stages.mask, divisor)
    key = int(weights.argmax())
    return (
        f"layer {stages.layer + 1}, head {stages.head + 1}: {code(plain_token(query))} looks "
        f"most at {code(stages.key_tokens[key], 24)}, {weights[key]:.3f}; "
        f"entropy {spread(weights).entropy:.2f} bits, dₖ = {len(stages.q)}"
    )


_TOKENS = (HeadSettings.query, HeadSettings.key, other(HeadSettings.query), other(HeadSettings.key))

BESIDE = Beside(
    (_draw_boxes, _draw_side), _figure, above=_draw_kinds, settings=_settings,
    params=(KIND, LAYER, HEAD, OTHER_LAYER, OTHER_HEAD, *_TOKENS, HeadSettings.scaling),
)  # fmt: skip
