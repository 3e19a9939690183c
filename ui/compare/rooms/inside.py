"""Inside a head of each side: one query through all stages, with each model's own numbers.

Where both have the same queries or keys, one choice holds for both; else each side has its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from figures.exhibit import Exhibit
from figures.labels import show_token
from figures.markdown import code
from transformer.measures.softmax import spread
from transformer.trace.records import HeadStages, Trace
from transformer.types import ATTENTION_KINDS, AttentionKind
from ui.compare.choice import OTHER_HEAD, OTHER_LAYER, Setup
from ui.compare.sides import LETTERS, Bar, link_page, offer_both, sides_of, view_of
from ui.components.stages import Chosen
from ui.components.stages.mount import head_stages
from ui.core import url_state
from ui.core.glossary import term
from ui.core.url_state import HEAD, LAYER, Param
from ui.core.view import View
from ui.core.widgets import fill
from ui.head.choice import HeadChoice
from ui.head.downloads import make_figure
from ui.head.exhibits import KINDS, difference, stages_of
from ui.head.settings import KEY, KIND, QUERY, SCALING, bound_kind, place_of
from ui.work.cache import key_of
from ui.work.computed import computed

_index = url_state.whole(1, 99_999)


def _write(value: int | None) -> str:
    return "" if value is None else str(value)


#: Query and key of B, from 1, where its tokens are not A's.
OTHER_QUERY: Param[int | None] = Param("other_query", _index, None, _write)
OTHER_KEY: Param[int | None] = Param("other_key", _index, None, _write)

PARAMS: tuple[Param[object], ...] = (
    QUERY, KEY, SCALING, OTHER_QUERY, OTHER_KEY,
)  # type: ignore[assignment]  # fmt: skip

_LAST = "compare_inside_last"


def settle_inside(setup: Setup) -> None:
    """Forget which tokens were chosen where they were chosen in other sentences."""
    now = key_of(setup.left), key_of(setup.right)
    before = st.session_state.get(_LAST, now)
    st.session_state[_LAST] = now
    if before != now and not url_state.arrived(*PARAMS):
        url_state.forget(QUERY, KEY, OTHER_QUERY, OTHER_KEY)


def draw_inside(setup: Setup, left: Trace, right: Trace, bar: Bar) -> None:
    """The stages of both sides, under each one's layer, head and query."""
    traces = left, right
    sides = sides_of(setup, "head")
    if not sides.shown:
        sides.in_row(lambda side: None, first=True)
        return
    bar.controls.segmented_control(
        "Kind of attention", ATTENTION_KINDS, format_func=lambda kind: KINDS[kind][0],
        label_visibility="collapsed", required=True, wrap=True, **bound_kind(),
    )  # fmt: skip
    kind = next(kind for kind in ATTENTION_KINDS if kind == url_state.get(KIND))
    same = _same_axes(traces, kind) if len(sides.shown) == 2 else (False, False)
    places = places_of(setup, traces, kind, sides.shown, same_queries=same[0])
    chosen = {
        side: _chosen(traces[side], place, side, same_keys=same[1])
        for side, place in places.items()
    }
    sides.in_row(
        lambda side: _draw_boxes(side, traces[side], places, same_queries=same[0]), first=True
    )
    sides.in_row(
        lambda side: _draw_stages(setup, side, traces[side], places[side], chosen[side], same[1])
    )
    with bar.aside:
        what = {side: (place, chosen[side]) for side, place in places.items()}
        offer_both(setup, "Inside a head", sides.shown, partial(_exhibit, what))


def places_of(
    setup: Setup,
    traces: tuple[Trace, Trace],
    kind: AttentionKind,
    sides: Sequence[int],
    *,
    same_queries: bool,
) -> dict[int, HeadChoice]:
    """What each side shows: as the store says, B like A where it was not set apart."""
    found: dict[int, HeadChoice] = {}
    for side in sides:
        n_layers, n_heads, n_queries, _ = traces[side].attention(kind).shape
        first = found.get(0)
        if side == 1 and first is not None:
            layer = _as_left(OTHER_LAYER, first.layer)
            head = _as_left(OTHER_HEAD, first.head)
            query = first.query if same_queries else _from_one(url_state.get(OTHER_QUERY))
        else:
            layer, head = _from_one(url_state.get(LAYER)), _from_one(url_state.get(HEAD))
            query = _from_one(url_state.get(QUERY if side == 0 else OTHER_QUERY))
        found[side] = place_of(
            view_of(setup, side), traces[side], kind, _within(layer, n_layers),
            _within(head, n_heads), _within(query, n_queries),
        )  # fmt: skip
    return found


def _same_axes(traces: tuple[Trace, Trace], kind: AttentionKind) -> tuple[bool, bool]:
    """Whether both have the same queries, and the same keys."""
    (queries, keys), (other_queries, other_keys) = (each.axis_tokens(kind) for each in traces)
    return queries == other_queries, keys == other_keys


def _as_left(param: Param[str], left: int) -> int | None:
    raw = url_state.get(param)
    return left if raw == "same" else None if raw == "mean" else int(raw) - 1


def _from_one(number: int | None) -> int | None:
    return None if number is None else number - 1


def _within(index: int | None, count: int) -> int | None:
    return index if index is not None and index < count else None


def _chosen(trace: Trace, place: HeadChoice, side: int, *, same_keys: bool) -> Chosen:
    """The key to follow, the one looked at most where none is chosen."""
    row = trace.attention(place.kind)[place.layer, place.head, place.query]
    param = KEY if side == 0 or same_keys else OTHER_KEY
    key = _within(_from_one(url_state.get(param)), len(row))
    return Chosen(int(row.argmax()) if key is None else key, url_state.get(SCALING))


def _draw_boxes(
    side: int, trace: Trace, places: dict[int, HeadChoice], *, same_queries: bool
) -> None:
    """Layer, head and query of one side."""
    place, letter = places[side], LETTERS[side]
    n_layers, n_heads, n_queries, _ = trace.attention(place.kind).shape
    queries, _ = trace.axis_tokens(place.kind)
    beside = side == 1 and 0 in places
    boxes = st.columns([5, 5, 6], gap="small")
    of_place: tuple[tuple[DeltaGenerator, str, Param[Any], int], ...] = (
        (boxes[0], "layer", (LAYER, OTHER_LAYER)[side], n_layers),
        (boxes[1], "head", (HEAD, OTHER_HEAD)[side], n_heads),
    )
    for box, name, param, count in of_place:
        numbers = [str(number) for number in range(1, count + 1)]
        shown = str(getattr(place, name) + 1)
        if beside and url_state.get(param) == "same" and getattr(places[0], name) < count:
            shown = "same"
        _box(
            box, f"{letter} {name}", f"inside_{name}_{side}", param,
            ["same", *numbers] if beside else numbers, shown,
            partial(_named, name), term(name),
        )  # fmt: skip
    if beside and same_queries:
        boxes[2].caption(f"Query {code(show_token(queries[place.query]), 24)}, as A")
        return
    numbers = [str(number) for number in range(1, n_queries + 1)]
    _box(
        boxes[2], f"{letter} query", f"inside_query_{side}", QUERY if side == 0 else OTHER_QUERY,
        numbers, str(place.query + 1),
        lambda raw: f"{raw}  {show_token(queries[int(raw) - 1])}", term("query"),
    )  # fmt: skip


def _named(name: str, raw: str) -> str:
    return f"{name} as A" if raw == "same" else f"{name} {raw}"


def _box(
    place: DeltaGenerator,
    label: str,
    key: str,
    param: Param[Any],
    raws: list[str],
    shown: str,
    name: Callable[[str], str],
    about: str,
) -> None:
    """A list that says what is shown and stores what is chosen."""
    fill(key, shown)

    def store() -> None:
        url_state.put(param, param.parse(st.session_state[key]))

    place.selectbox(
        label, raws, key=key, on_change=store, format_func=name, label_visibility="collapsed",
        help=about,
    )  # fmt: skip


def _draw_stages(
    setup: Setup, side: int, trace: Trace, place: HeadChoice, chosen: Chosen, same_keys: bool
) -> None:
    view = view_of(setup, side)
    stages: HeadStages = computed(view, "head", place, stages_of(place))
    st.markdown(f"**{LETTERS[side]}** · {_said(stages, chosen)}")

    def keep(said: Chosen) -> None:
        url_state.put(KEY if side == 0 or same_keys else OTHER_KEY, said.key + 1)
        url_state.put(SCALING, said.scaling)

    head_stages(
        stages, names=KINDS[place.kind][1], difference=difference(stages, trace), chosen=chosen,
        on_choose=keep, key=f"compare_stages_{side}", group="compare",
    )  # fmt: skip
    link_page(
        setup, side, "head",
        **{
            KIND.name: place.kind, LAYER.name: str(place.layer + 1), HEAD.name: str(place.head + 1),
            QUERY.name: str(place.query + 1), KEY.name: str(chosen.key + 1),
        },
    )  # fmt: skip


def _said(stages: HeadStages, chosen: Chosen) -> str:
    """The head in one line of numbers."""
    weights = stages.weighing(chosen.scaling).weights
    most = int(weights.argmax())
    facts = spread(weights)
    return (
        f"layer {stages.layer + 1}, head {stages.head + 1}: {code(stages.query_token, 24)} looks "
        f"most at {code(stages.key_tokens[most], 24)}, {weights[most]:.3f}; "
        f"entropy {facts.entropy:.2f} bits, dₖ = {len(stages.q)}"
    )


def _exhibit(what: dict[int, tuple[HeadChoice, Chosen]], view: View, side: int) -> Exhibit:
    return make_figure(view, *what[side])
