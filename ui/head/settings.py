"""The URL parameters of the page "Inside a head", and its defaults.

Layer, head and kind are shared with the other pages, so that a head that stands out there can be
opened here. A mean over layers or heads has no inside; the page then picks a head with much to see.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import streamlit as st

from transformer.trace.records import Trace
from transformer.types import ATTENTION_KINDS, AttentionKind
from ui.components.stages import MOST_DIVISOR, Chosen
from ui.core import url_state
from ui.core.url_state import HEAD, LAYER, STEP, Param
from ui.core.view import View
from ui.core.widgets import bound
from ui.head.choice import HeadChoice


def _write_index(value: int | None) -> str:
    return "" if value is None else str(value)


def parse_divisor(raw: str) -> float | None:
    """Parse a number; `on` and `off`, of older links, are the model's and no division."""
    return {"on": None, "off": 1.0}[raw] if raw in ("on", "off") else _divisor(raw)


_index = url_state.whole(1, 99_999)
_divisor = url_state.number(1, MOST_DIVISOR)

KIND: Param[str] = Param("kind", url_state.one_of(ATTENTION_KINDS), "cross")
QUERY: Param[int | None] = Param("query", _index, None, _write_index)
KEY: Param[int | None] = Param("key", _index, None, _write_index)
#: What q . k is divided by; None is the model's sqrt(d_k).
SCALING: Param[float | None] = Param("scaling", parse_divisor, None)

_LAST = "head_page_last"


def drop_stale_tokens(view: View) -> None:
    """Forget the query and key when the request changes, unless a link has just set them."""
    now = view.request
    before = st.session_state.get(_LAST, now)
    st.session_state[_LAST] = now
    if before != now and not url_state.arrived(QUERY, KEY):
        url_state.forget(QUERY, KEY)


def bound_kind() -> dict[str, Any]:
    """Return `bound(KIND)`, extended to forget the query and key when the kind changes."""
    arguments = bound(KIND)
    store = arguments["on_change"]

    def changed() -> None:
        store()
        url_state.forget(QUERY, KEY)

    return arguments | {"on_change": changed}


def place_now(view: View, trace: Trace) -> HeadChoice:
    """Return the stored place, with defaults for anything not set or not in this trace."""
    kind = kind_now(trace)
    n_layers, n_heads, n_queries, _ = trace.attention(kind).shape
    layer, head = _stored_index(LAYER, n_layers), _stored_index(HEAD, n_heads)
    return place_of(view, trace, kind, layer, head, _stored_index(QUERY, n_queries))


def shared_kinds(traces: Sequence[Trace]) -> tuple[AttentionKind, ...]:
    """Return the kinds of maps that all traces have; a model of one stack has one."""
    return tuple(
        kind for kind in ATTENTION_KINDS if all(each.attention(kind).size for each in traces)
    )


def kind_now(*traces: Trace) -> AttentionKind:
    """Return the stored kind, or the last that all of these traces have; there has to be one."""
    kinds = shared_kinds(traces)
    return next((kind for kind in kinds if kind == url_state.get(KIND)), kinds[-1])


def place_of(
    view: View,
    trace: Trace,
    kind: AttentionKind,
    layer: int | None,
    head: int | None,
    query: int | None,
) -> HeadChoice:
    """Return a place in this trace, with defaults for None; indices given must be in range."""
    if query is None:
        query = default_query(view, trace, kind)
    if layer is None or head is None:
        interest = _interest(trace, kind, query, _watched(view, trace) if kind == "cross" else [])
        for axis, fixed in ((0, layer), (1, head)):
            if fixed is not None:
                others = [i for i in range(interest.shape[axis]) if i != fixed]
                interest[(others, slice(None)) if axis == 0 else (slice(None), others)] = -1
        layer, head = (int(i) for i in np.unravel_index(interest.argmax(), interest.shape))
    return HeadChoice(kind, layer, head, query)


def keep(place: HeadChoice) -> None:
    """Store a place."""
    url_state.put(LAYER, place.layer + 1)
    url_state.put(HEAD, place.head + 1)
    url_state.put(QUERY, place.query + 1)


def chosen_now(trace: Trace, place: HeadChoice, param: Param[int | None] = KEY) -> Chosen:
    """Return the key to follow, by default the one with the largest weight, and the divisor.

    Args:
        param: the parameter that holds the key.
    """
    row = trace.attention(place.kind)[place.layer, place.head, place.query]
    key = _stored_index(param, len(row))
    return Chosen(int(row.argmax()) if key is None else key, url_state.get(SCALING))


def keep_chosen(chosen: Chosen, param: Param[int | None] = KEY) -> None:
    """Store the key chosen in the picture in `param`, and the divisor."""
    url_state.put(param, chosen.key + 1)
    url_state.put(SCALING, chosen.divisor)


def default_query(view: View, trace: Trace, kind: AttentionKind) -> int:
    """Return a query worth opening on, from 0.

    In the decoder it is the player's step, or the query that looks most at the word the example is
    about; in the encoder it is that word itself. Without such a word it is a token in the middle.
    """
    watched = _watched(view, trace)
    if kind == "encoder_self":
        return watched[0] if watched else (len(trace.src_tokens) - 1) // 2
    n_queries = len(trace.tgt_tokens)
    step = url_state.get(STEP)
    if step is not None and step <= n_queries:
        return step - 1
    if watched and trace.cross.size:
        return int(trace.cross.mean(axis=(0, 1))[:, watched].sum(axis=1).argmax())
    return n_queries // 2


def _watched(view: View, trace: Trace) -> list[int]:
    """Return the positions of the word that the example is about."""
    example = view.examples.find(view.sentence)
    watch = example.watch if example else ""
    return [
        position
        for position, token in enumerate(trace.src_tokens)
        if watch and token.lstrip("▁").lower() == watch
    ]


def _interest(
    trace: Trace, kind: AttentionKind, query: int, watched: list[int]
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Return how much each head has to show, [L, H]: w (1 - w) for the weight w on watched keys.

    A head that puts all its weight there, or none, shows little of what a softmax does. Without
    watched keys, w is the largest weight on a key that is neither special nor the query itself.
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


def _stored_index(param: Param[int | None], n: int) -> int | None:
    """Return a stored number, counted from 1, as an index; None if it is not set or over `n`."""
    value = url_state.get(param)
    return value - 1 if value is not None and value <= n else None
