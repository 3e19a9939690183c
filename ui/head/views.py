"""The page "Inside a head": the control for the attention kind, and a head's stages."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from figures.labels import KIND_NAMES, code, plain_token, query_labels
from transformer.measures.entropy import divided, spread
from transformer.trace.records import HeadStages, Trace
from ui.components.mount import show
from ui.components.stages import Chosen, stages_component
from ui.core import url_state
from ui.core.glossary import term
from ui.core.side import OTHER_HEAD, OTHER_LAYER, Side, other
from ui.core.url_state import HEAD, KIND, LAYER, Param
from ui.core.widgets import choose_one, raw_box
from ui.export.download import figure_for
from ui.frame.beside import Beside, Changes, Maker, Pair, draw_cell
from ui.head.choice import (
    HeadSettings,
    chosen_now,
    keep_chosen,
    kind_now,
    place_now,
    queries_as_a,
    shared_kinds,
)
from ui.head.exhibits import HeadChoice, arguments, difference, inside_head, names_of, stages_of
from ui.work.desk import computed
from ui.work.results import Computation


def draw_kinds(where: DeltaGenerator, *traces: Trace) -> None:
    """Draw the control for the attention kinds that all traces have, if there are several."""
    kinds = shared_kinds(traces)
    if len(kinds) > 1:
        names = {kind: KIND_NAMES[kind].removesuffix("-attention") for kind in kinds}
        choose_one("Kind of attention", KIND, names, where)


def stages_at(place: HeadChoice) -> Computation[HeadStages]:
    """Return the computation of a place's stages."""
    return Computation("head", place, stages_of(place))


def draw_stages(
    side: Side, place: HeadChoice, chosen: Chosen, on_choose: Callable[[Chosen], None]
) -> None:
    """Mount the stages; two sides line up stage by stage."""
    stages = computed(side.view, stages_at(place))
    component = stages_component(
        stages, names=names_of(place, side.trace), difference=difference(stages, side.trace),
        chosen=chosen, group="compare" if side.letter else "",
    )  # fmt: skip
    show(component, key=side.key("stages"), on_choose=on_choose)


def _draw_kinds(pair: Pair) -> bool:
    traces = [side.trace for side in pair.shown]
    if not traces:
        return True
    if not shared_kinds(traces):
        st.info("One model only reads, the other only writes: they share no kind of attention.")
        return False
    draw_kinds(pair.controls, *traces)
    url_state.put(KIND, kind_now(*traces))
    return True


def _key_of(side: Side) -> Param[int | None]:
    first, kind = side.first, kind_now(side.trace)  # sides with the same keys share the setting
    same = first and first.trace.axis_tokens(kind)[1] == side.trace.axis_tokens(kind)[1]
    return HeadSettings.key if same else side.own(HeadSettings.key)


def _draw_side(side: Side) -> None:
    place, key = place_now(side), _key_of(side)
    chosen, query = chosen_now(side.trace, place, key), names_of(place, side.trace)[0]
    stages = computed(side.view, stages_at(place))
    st.markdown(f"{side.lead}{_in_numbers(stages, chosen, query)}")
    draw_stages(side, place, chosen, partial(keep_chosen, param=key))


def _settings(side: Side) -> Changes:
    place = place_now(side)
    return {
        KIND: place.kind, LAYER: place.layer + 1, HEAD: place.head + 1,
        HeadSettings.query: place.query + 1,
        HeadSettings.key: chosen_now(side.trace, place, _key_of(side)).key + 1,
    }  # fmt: skip


def _figure(side: Side) -> Maker:
    place = place_now(side)
    choice = arguments(place, chosen_now(side.trace, place, _key_of(side)))
    return partial(figure_for, side.view, inside_head, **choice)


def _draw_boxes(side: Side) -> None:
    place = place_now(side)
    counts = side.trace.attention(place.kind).shape
    queries = query_labels(side.trace, place.kind)
    first = place_now(side.first) if side.first else None
    boxes = st.columns([5, 5, 6], gap="small")
    at = [(place.layer, first and first.layer), (place.head, first and first.head)]
    raws = [
        "same" if url_state.get(param) == "same" and own == others else str(own + 1)
        for param, (own, others) in zip(side.cell_params, at, strict=True)
    ]
    draw_cell(side, boxes[:2], counts, raws, same=first is not None)
    if queries_as_a(side, place.kind):
        boxes[2].caption(f"Query {code(plain_token(queries[place.query]))}, as A")
        return
    raw_box(
        boxes[2], f"{side.letter} query", side.own(HeadSettings.query),
        [str(number) for number in range(1, counts[2] + 1)],
        str(place.query + 1), key=side.key("head_query_box"),
        named=lambda raw: f"{raw}  {plain_token(queries[int(raw) - 1])}", help=term("query"),
    )  # fmt: skip


def _in_numbers(stages: HeadStages, chosen: Chosen, query: str) -> str:
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
