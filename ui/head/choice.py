"""The URL parameters of the page "Inside a head", and its defaults.

Layer, head and kind are shared with other pages, so a head chosen there opens here. A mean over
layers or heads has no stages; the page then chooses an interesting head.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from figures.labels import query_labels
from transformer.trace.records import Trace
from transformer.types import ATTENTION_KINDS, AttentionKind
from ui.components.stages import MOST_DIVISOR, Chosen
from ui.core import url_state
from ui.core.choice import PlaceChoice
from ui.core.side import Side
from ui.core.url_state import HEAD, KIND, LAYER, STEP, Param
from ui.core.view import View
from ui.head.exhibits import HeadChoice


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


def place_now(side: Side) -> HeadChoice:
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
    return HeadChoice(kind, layer, head, query)


def keep(place: HeadChoice) -> None:
    """Store a place."""
    layer, head, query = (at + 1 for at in (place.layer, place.head, place.query))
    url_state.store({LAYER: layer, HEAD: head, HeadSettings.query: query})


def chosen_now(
    trace: Trace, place: HeadChoice, param: Param[int | None] = HeadSettings.key
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
    example = view.examples.like(view.sentence)
    return example.watched(trace.src_tokens) if example else []


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
