"""Inside a head of each side: one query through all stages, with each model's own numbers.

Where both have the same queries or keys, one choice holds for both; else each side has its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from figures.labels import plain_token, query_labels
from figures.markdown import code
from transformer.measures.softmax import divided, spread
from transformer.trace.records import HeadStages
from transformer.types import AttentionKind
from ui.compare.choice import OTHER_HEAD, OTHER_LAYER
from ui.compare.sides import CompareRoom, Download, Pair
from ui.components.stages import Chosen
from ui.core import url_state
from ui.core.glossary import term
from ui.core.side import Side, other
from ui.core.url_state import HEAD, KIND, LAYER, Param
from ui.core.widgets import fill
from ui.head.choice import HeadSettings, chosen_now, keep_chosen, kind_now, place_of, shared_kinds
from ui.head.downloads import make_figure
from ui.head.exhibits import HeadChoice, names_of
from ui.head.views import draw_kinds, draw_stages, get_stages

_LAYERS: Mapping[str, Param[Any]] = {"A": LAYER, "B": OTHER_LAYER}
_HEADS: Mapping[str, Param[Any]] = {"A": HEAD, "B": OTHER_HEAD}
#: Query and key of B are settings of their own where its tokens are not A's.
_TOKENS = (HeadSettings.query, HeadSettings.key, other(HeadSettings.query), other(HeadSettings.key))
_LAST = "compare_head_last"


def _start(sides: tuple[Side, Side]) -> None:
    """Forget the chosen tokens when the sentences change."""
    now = tuple(side.view.request for side in sides)
    before = st.session_state.get(_LAST, now)
    st.session_state[_LAST] = now
    if before != now and not url_state.arrived(*_TOKENS, HeadSettings.scaling):
        url_state.forget(*_TOKENS)


def _draw(pair: Pair) -> Download | None:
    """The stages of both sides, under each one's layer, head and query."""
    if not pair.shown:
        pair.rows(lambda side: None)
        return None
    traces = [side.trace for side in pair.shown]
    if not shared_kinds(traces):
        st.info("One model reads and the other writes: they have no kind of attention in common.")
        return None
    draw_kinds(pair.controls, *traces)
    kind = kind_now(*traces)
    same_queries, same_keys = _same_axes(pair, kind)
    places = _places_of(pair, kind, same_queries=same_queries)
    key_params = {
        side.letter: HeadSettings.key if same_keys else side.own(HeadSettings.key)
        for side in pair.shown
    }
    chosen = {
        side.letter: chosen_now(side.trace, places[side.letter], key_params[side.letter])
        for side in pair.shown
    }

    def stages(side: Side) -> None:
        place, at = places[side.letter], chosen[side.letter]
        query = names_of(place, side.trace)[0]
        st.markdown(f"{side.lead}{_said(get_stages(side.view, place), at, query)}")
        draw_stages(side, place, at, partial(keep_chosen, param=key_params[side.letter]))

    def settings(side: Side) -> Mapping[str, str]:
        place, at = places[side.letter], chosen[side.letter]
        return {
            KIND.name: kind, LAYER.name: str(place.layer + 1), HEAD.name: str(place.head + 1),
            HeadSettings.query.name: str(place.query + 1), HeadSettings.key.name: str(at.key + 1),
        }  # fmt: skip

    pair.rows(partial(_draw_boxes, places=places, same_queries=same_queries), stages)
    pair.links(settings)
    return pair.download(
        lambda side: partial(make_figure, side.view, places[side.letter], chosen[side.letter])
    )


def _same_axes(pair: Pair, kind: AttentionKind) -> tuple[bool, bool]:
    """Whether both have the same queries, and the same keys."""
    if len(pair.shown) < 2:
        return False, False
    (_, keys), (_, other_keys) = (side.trace.axis_tokens(kind) for side in pair.sides)
    queries, other_queries = (query_labels(side.trace, kind) for side in pair.sides)
    return queries == other_queries, keys == other_keys


def _places_of(pair: Pair, kind: AttentionKind, *, same_queries: bool) -> dict[str, HeadChoice]:
    """Return what each side shows; B follows A unless it has a choice of its own."""
    found: dict[str, HeadChoice] = {}
    for side in pair.shown:
        counts, first = side.trace.attention(kind).shape, found.get("A")
        wanted = [url_state.get(side.own(HeadSettings.query))]
        for name, params in (("layer", _LAYERS), ("head", _HEADS)):
            raw = url_state.get(params[side.letter])
            if raw == "same":
                raw = getattr(first, name) + 1 if first else url_state.get(params["A"])
            wanted.append(None if raw in (None, "mean") else int(raw))
        if first is not None and same_queries:
            wanted[0] = first.query + 1
        query, layer, head = (
            number - 1 if number is not None and number <= count else None
            for number, count in zip(wanted, (counts[2], counts[0], counts[1]), strict=True)
        )
        found[side.letter] = place_of(side.view, side.trace, kind, layer, head, query)
    return found


def _draw_boxes(side: Side, places: Mapping[str, HeadChoice], *, same_queries: bool) -> None:
    """Layer, head and query of one side."""
    place, letter = places[side.letter], side.letter
    counts = side.trace.attention(place.kind).shape
    queries = query_labels(side.trace, place.kind)
    first = places.get("A") if letter == "B" else None
    boxes = st.columns([5, 5, 6], gap="small")
    for box, name, params, count in zip(
        boxes[:2], ("layer", "head"), (_LAYERS, _HEADS), counts, strict=False
    ):
        param, shown = params[letter], str(getattr(place, name) + 1)
        if first is not None and url_state.get(param) == "same" and getattr(first, name) < count:
            shown = "same"
        raws = ["same"] * (first is not None) + [str(number) for number in range(1, count + 1)]
        _box(box, side, name, param, raws, shown, partial(_named, name))
    if first is not None and same_queries:
        boxes[2].caption(f"Query {code(plain_token(queries[place.query]))}, as A")
        return
    raws = [str(number) for number in range(1, counts[2] + 1)]
    _box(
        boxes[2], side, "query", side.own(HeadSettings.query), raws, str(place.query + 1),
        lambda raw: f"{raw}  {plain_token(queries[int(raw) - 1])}",
    )  # fmt: skip


def _named(name: str, raw: str) -> str:
    return f"{name} as A" if raw == "same" else f"{name} {raw}"


def _box(
    where: DeltaGenerator,
    side: Side,
    name: str,
    param: Param[Any],
    raws: list[str],
    shown: str,
    named: Callable[[str], str],
) -> None:
    """Draw a list that shows one choice and stores another."""
    key = side.key(f"head_{name}_box")
    fill(key, shown)
    where.selectbox(
        f"{side.letter} {name}", raws, key=key, format_func=named, help=term(name),
        on_change=lambda: url_state.put(param, param.parse(st.session_state[key])),
        label_visibility="collapsed",
    )  # fmt: skip


def _said(stages: HeadStages, chosen: Chosen, query: str) -> str:
    """Describe the head in one line of numbers."""
    weights = stages.scaled.weights
    if chosen.divisor is not None:
        most_of = 2 * math.sqrt(len(stages.q))  # where the slider ends
        divisor = min(chosen.divisor, most_of)
        added = 0.0 if stages.relative is None else divisor * stages.relative
        weights = divided(stages.dots + added, stages.mask, divisor)
    most = int(weights.argmax())
    facts = spread(weights)
    return (
        f"layer {stages.layer + 1}, head {stages.head + 1}: {code(plain_token(query))} looks "
        f"most at {code(stages.key_tokens[most], 24)}, {weights[most]:.3f}; "
        f"entropy {facts.entropy:.2f} bits, dₖ = {len(stages.q)}"
    )


ROOM = CompareRoom(
    "head", _draw, page="head", start=_start,
    params=(KIND, LAYER, HEAD, OTHER_LAYER, OTHER_HEAD, *_TOKENS, HeadSettings.scaling),
)  # fmt: skip
