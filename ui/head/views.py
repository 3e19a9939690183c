"""The page "Inside a head": its choice, the stages, and "Why this head looks here".

Layer, head and kind are shared with other pages, so a head chosen there opens here. A mean over
layers or heads has no stages; the page then chooses an interesting head.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from figures.labels import KIND_NAMES, code, plain_token, query_labels, signed
from transformer.measures.heads import divided, spread
from transformer.trace.parts import Part
from transformer.trace.records import HeadStages, Trace
from transformer.types import ATTENTION_KINDS, AttentionKind
from ui.components.mount import show
from ui.components.stages import MOST_DIVISOR, Chosen, stages_component
from ui.core import url_state
from ui.core.glossary import linked, term
from ui.core.layout import draw_map
from ui.core.url_state import HEAD, KIND, LAYER, STEP, Param
from ui.core.view import OTHER_HEAD, OTHER_LAYER, Side, View, other
from ui.core.widgets import PlaceChoice, choose_one, raw_box
from ui.export.download import download_button, figure_for
from ui.frame.beside import Beside, Changes, Maker, Pair, draw_cell
from ui.head import exhibits
from ui.work.desk import computed, get_tracer
from ui.work.results import Computation


@dataclass(frozen=True)
class HeadSettings(PlaceChoice):
    """The URL parameters; `scaling` divides q · k, None stands for the model's sqrt(d_k)."""

    query: Param[int | None] = url_state.position("query", of="request kind compared")
    key: Param[int | None] = url_state.position("key", of="request kind compared")
    scaling: Param[float | None] = Param("scaling", url_state.number(1, MOST_DIVISOR), None)
    step: Param[int | None] = STEP


def shared_kinds(traces: Sequence[Trace]) -> tuple[AttentionKind, ...]:
    """Return the attention kinds that all traces have; a single-stack model has one."""
    return tuple(
        kind for kind in ATTENTION_KINDS if all(trace.attention(kind).size for trace in traces)
    )


def kind_now(*traces: Trace) -> AttentionKind:
    """Return the stored kind, or else the last kind that all traces (at least one) have."""
    kinds = shared_kinds(traces)
    return next((kind for kind in kinds if kind == url_state.get(KIND)), kinds[-1])


def queries_as_a(side: Side, kind: AttentionKind) -> bool:
    """Return True if side B has A's queries, so that both share a choice."""
    first = side.first
    return first is not None and query_labels(first.trace, kind) == query_labels(side.trace, kind)


def place_now(side: Side) -> exhibits.HeadChoice:
    """Return the stored place, with defaults for what is not set or not in the trace.

    Side B follows A unless it has its own choice.
    """
    view, trace, kind = side.view, side.trace, kind_now(side.trace)
    query, cell = url_state.get(side.own(HeadSettings.query)), side.cell_now()
    if side.first:
        first = place_now(side.first)
        cell = side.cell_now((first.layer + 1, first.head + 1))
        query = first.query + 1 if queries_as_a(side, kind) else query
    layer, head, query = url_state.indices((*cell, query), trace.attention(kind).shape)
    if query is None:
        query = default_query(view, trace, kind)
    if layer is None or head is None:
        interest = _interest(trace, kind, query, _watched(view, trace) if kind == "cross" else [])
        layers, heads = np.indices(interest.shape)
        allowed = ((layers == layer) | (layer is None)) & ((heads == head) | (head is None))
        best = np.where(allowed, interest, -1).argmax()
        layer, head = (int(i) for i in np.unravel_index(best, interest.shape))
    return exhibits.HeadChoice(kind, layer, head, query)


def keep(place: exhibits.HeadChoice) -> None:
    """Store a place."""
    layer, head, query = (at + 1 for at in (place.layer, place.head, place.query))
    url_state.store({LAYER: layer, HEAD: head, HeadSettings.query: query})


def chosen_now(
    trace: Trace, place: exhibits.HeadChoice, param: Param[int | None] = HeadSettings.key
) -> Chosen:
    """Return the divisor, and the key to follow: by default, the key with the largest weight."""
    row = trace.attention(place.kind)[place.layer, place.head, place.query]
    at = url_state.index(param, len(row), int(row.argmax()))
    return Chosen(at, url_state.get(HeadSettings.scaling))


def keep_chosen(chosen: Chosen, param: Param[int | None] = HeadSettings.key) -> None:
    """Store the key and divisor that were chosen in the picture."""
    url_state.store({param: chosen.key + 1, HeadSettings.scaling: chosen.divisor})


def default_query(view: View, trace: Trace, kind: AttentionKind) -> int:
    """Return an interesting query, from 0.

    In the decoder, this is the player's step, or the query that looks most at the example's word;
    in the encoder, it is that word. Without such a word, it is a token in the middle.
    """
    watched = _watched(view, trace)
    if kind == "encoder_self":
        return watched[0] if watched else (len(trace.src_tokens) - 1) // 2
    n_queries = len(trace.tgt_tokens)
    step = view.step(n_queries)
    if step is not None:
        return step
    if watched and trace.cross.size:
        return int(trace.cross.mean(axis=(0, 1))[:, watched].sum(axis=1).argmax())
    return n_queries // 2


def _watched(view: View, trace: Trace) -> list[int]:
    return example.watched(trace.src_tokens) if (example := view.example) else []


def _interest(
    trace: Trace, kind: AttentionKind, query: int, watched: list[int]
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Return w (1 - w) by head, [L, H], where w is the weight on watched keys.

    Without watched keys, w is the largest weight on a key that is neither special nor the query.
    """
    rows = trace.attention(kind)[:, :, query].copy()  # [L, H, m]
    if watched:
        weights = rows[..., watched].sum(axis=-1)
    else:
        special = trace.tgt_special if kind == "decoder_self" else trace.src_special
        ignored = {*special, *((query,) if kind != "cross" else ())}
        rows[..., [key for key in ignored if key < rows.shape[-1]]] = 0
        weights = rows.max(axis=-1)
    interest: np.ndarray[tuple[int, ...], np.dtype[np.float32]] = weights * (1 - weights)
    return interest


def draw_kinds(where: DeltaGenerator, *traces: Trace) -> None:
    """Draw the control for the attention kinds that all traces have, if there are several."""
    kinds = shared_kinds(traces)
    if len(kinds) > 1:
        names = {kind: KIND_NAMES[kind].removesuffix("-attention") for kind in kinds}
        choose_one("Kind of attention", KIND, names, where)


def draw_stages(
    side: Side, place: exhibits.HeadChoice, chosen: Chosen, on_choose: Callable[[Chosen], None]
) -> None:
    """Mount the stages; two sides line up stage by stage."""
    stages = computed(side.view, Computation.of(exhibits.stages_of, place))
    component = stages_component(
        stages, names=exhibits.names_of(place, side.trace), chosen=chosen,
        difference=exhibits.difference(stages, side.trace), group="compare" if side.letter else "",
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
    chosen, query = chosen_now(side.trace, place, key), exhibits.names_of(place, side.trace)[0]
    stages = computed(side.view, Computation.of(exhibits.stages_of, place))
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
    choice = exhibits.arguments(place, chosen_now(side.trace, place, _key_of(side)))
    return partial(figure_for, side.view, exhibits.inside_head, **choice)


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


_ONE_STACK = (
    "**Why this head looks here** is made for an encoder and a decoder; this model has one stack."
)


def why_link(view: View) -> str:
    """Return a link to the section, to continue a sentence, or "" without one."""
    lacks = get_tracer(view).lacks("internals")
    return "" if lacks else ", or read [why it looks there](#why-this-head-looks-here)"


def draw_why(side: Side, place: exhibits.HeadChoice, key: int) -> None:
    """Draw the parts of the score of the query and the key, or say why there are none."""
    if get_tracer(side.view).lacks("internals"):
        st.caption(_ONE_STACK)
        return
    why = computed(side.view, Computation.of(exhibits.why_of, place, key))
    names = exhibits.Names(side.trace, place, key)
    st.markdown("#### Why this head looks here")
    words, picture = st.columns([6, 5], gap="large")
    query = code(plain_token(exhibits.names_of(place, side.trace)[0]))
    with words:
        st.markdown(_in_words(why, names, query, code(plain_token(names.token("key")))))
    with picture:
        draw_map(exhibits.matrix_of(why.split, names), key="why_here", max_height=380)
        st.markdown(_tests_in_words(why, names))
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(linked(
            "The score in parts: query and key are sums of what each layer added to their token, "
            "so the score is a sum over pairs, a part of the query times a part of the key. Each "
            "LayerNorm keeps its scale in this sentence. So the sum is exact, but a part's effect "
            "is not: everything after it changes too.",
            "score in parts", "score", "LayerNorm",
        ), width="stretch")  # fmt: skip
        download_button(
            partial(figure_for, side.view, exhibits.why_this_head_looks, **vars(place), key=key),
            key="why_here_figure", name=exhibits.why_name(place, key),
            n_numbers=why.split.shares.size,
        )  # fmt: skip


def _in_words(why: exhibits.Why, names: exhibits.Names, query: str, key: str) -> str:
    split, score = why.split, why.split.score
    of_key, of_query = (split.shares.sum(axis, dtype=np.float64) for axis in (0, 1))
    at, other = (int((sums * (score or 1)).argmax()) for sums in (of_key, of_query))
    masked = " (masked, so it gets no weight)" if names.masked else ""
    lines = [
        f"Before the softmax, {query} scores {key}{masked} **{signed(score)}**"
        f"{_reason(why, split.key_parts[at], of_key[at], names)} On the query's side, above all "
        f"{names.clause(split.query_parts[other], 'query')} ({signed(of_query[other])}).",
        "", f"The largest of {len(of_key)} parts of the key:", "",
    ]  # fmt: skip
    order = np.argsort(-np.abs(of_key), kind="stable")
    for part in order[: exhibits.LISTED].tolist():
        column = split.shares[:, part] * (of_key[part] or 1)
        answers = split.query_parts[int(column.argmax())]
        lines.append(
            f"- **{signed(of_key[part])}**: {names.clause(split.key_parts[part], 'key')}; the "
            f"query answers with {names.own(answers)}."
        )
    if (rest := order[exhibits.LISTED :]).size:
        lines.append(f"- {signed(of_key[rest].sum())}: all others together.")
    if split.relative:
        lines.append(f"- {signed(split.relative)}: the distance from query to key.")
    return "\n".join(lines)


def _reason(why: exhibits.Why, part: Part, share: float, names: exhibits.Names) -> str:
    """Return the largest part as the reason for the score, or the test that contradicts it."""
    for trial in why.trials:
        if trial.part == part and 2 * trial.measured / trial.predicted < 1:
            return (
                f". **Without {names.place(part)}, the score changes by {signed(trial.measured)}, "
                f"not by {signed(trial.predicted)}** as the sum below says: later parts change too "
                "and make up for it."
            )
    most = "mostly" if 2 * abs(share) >= abs(why.split.score) else "above all"
    return f", {most} because **{names.clause(part, 'key')}** ({signed(share)})."


def _tests_in_words(why: exhibits.Why, names: exhibits.Names) -> str:
    lines = ["Taken out at all positions, everything after it computed again:", ""]
    for trial in why.trials:
        lines.append(
            f"- without {names.place(trial.part)}: the score changes by {signed(trial.measured)}; "
            f"the sum says {signed(trial.predicted)}."
        )
    return "\n".join(lines)
