"""What is chosen on the page "Inside a head", as the link holds it, and what it opens on.

Layer, head and kind are those of the other pages, so a head that stands out there can be opened
here. A mean over layers or heads has no inside; then a head is shown in which much can be seen.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import streamlit as st

from transformer.trace.records import Trace
from transformer.types import ATTENTION_KINDS, AttentionKind
from ui.components.stages import Chosen
from ui.core import url_state
from ui.core.url_state import HEAD, LAYER, STEP, Param
from ui.core.view import View
from ui.core.widgets import bound
from ui.head.choice import HeadChoice


def _write_index(value: int | None) -> str:
    return "" if value is None else str(value)


_index = url_state.whole(1, 99_999)

KIND: Param[str] = Param("kind", url_state.one_of(ATTENTION_KINDS), "cross")
QUERY: Param[int | None] = Param("query", _index, None, _write_index)
KEY: Param[int | None] = Param("key", _index, None, _write_index)
SCALING: Param[bool] = Param("scaling", url_state.parse_switch, True, url_state.write_switch)

_LAST = "head_page_last"


def settle(view: View) -> None:
    """Forget which tokens were chosen where they were chosen in another sentence."""
    now = view.request
    before = st.session_state.get(_LAST, now)
    st.session_state[_LAST] = now
    if before != now and not url_state.arrived(QUERY, KEY):
        url_state.forget(QUERY, KEY)


def bound_kind() -> dict[str, Any]:
    """`bound` for the kind of attention; another kind has other queries and keys."""
    held = bound(KIND)
    store = held["on_change"]

    def changed() -> None:
        store()
        url_state.forget(QUERY, KEY)

    return held | {"on_change": changed}


def place_now(view: View, trace: Trace) -> HeadChoice:
    """The place that the store asks for; what it leaves open, or asks in vain, is chosen here."""
    kind = next(kind for kind in ATTENTION_KINDS if kind == url_state.get(KIND))
    n_layers, n_heads, n_queries, _ = trace.attention(kind).shape
    layer, head = _asked(LAYER, n_layers), _asked(HEAD, n_heads)
    return place_of(view, trace, kind, layer, head, _asked(QUERY, n_queries))


def place_of(
    view: View,
    trace: Trace,
    kind: AttentionKind,
    layer: int | None,
    head: int | None,
    query: int | None,
) -> HeadChoice:
    """The place in this trace; what is None is chosen here, the rest has to be there."""
    if query is None:
        query = telling_query(view, trace, kind)
    if layer is None or head is None:
        looks = _interest(trace, kind, query, _watched(view, trace) if kind == "cross" else [])
        for axis, fixed in ((0, layer), (1, head)):
            if fixed is not None:
                others = [i for i in range(looks.shape[axis]) if i != fixed]
                looks[(others, slice(None)) if axis == 0 else (slice(None), others)] = -1
        layer, head = (int(i) for i in np.unravel_index(looks.argmax(), looks.shape))
    return HeadChoice(kind, layer, head, query)


def keep(place: HeadChoice) -> None:
    """Store a place."""
    url_state.put(LAYER, place.layer + 1)
    url_state.put(HEAD, place.head + 1)
    url_state.put(QUERY, place.query + 1)


def chosen_now(trace: Trace, place: HeadChoice, param: Param[int | None] = KEY) -> Chosen:
    """The key to follow, the one looked at most where none is chosen, and the switch.

    Args:
        param: the setting that holds the key.
    """
    row = trace.attention(place.kind)[place.layer, place.head, place.query]
    key = _asked(param, len(row))
    return Chosen(int(row.argmax()) if key is None else key, url_state.get(SCALING))


def keep_chosen(chosen: Chosen, param: Param[int | None] = KEY) -> None:
    """Store what was chosen in the picture, the key in `param`."""
    url_state.put(param, chosen.key + 1)
    url_state.put(SCALING, chosen.scaling)


def telling_query(view: View, trace: Trace, kind: AttentionKind) -> int:
    """A query worth opening on, from 0.

    In the decoder it is the player's step, or the one that looks most at the word an example is
    about; in the encoder that word itself; without such a word a token in the middle.
    """
    watched = _watched(view, trace)
    if kind == "encoder_self":
        return watched[0] if watched else (len(trace.src_tokens) - 1) // 2
    n_queries = len(trace.tgt_tokens)
    step = url_state.get(STEP)
    if step is not None and step <= n_queries:
        return step - 1
    if watched:
        return int(trace.cross.mean(axis=(0, 1))[:, watched].sum(axis=1).argmax())
    return n_queries // 2


def _watched(view: View, trace: Trace) -> list[int]:
    """Where the word stands that an example is about."""
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
    """How much there is to see in each head, [L, H]: w (1 - w) for the weight w on watched keys.

    A head that has decided entirely, or not at all, shows little of what a softmax does. Without
    watched keys w is the largest weight on a key that is neither special nor the query itself.
    """
    rows = trace.attention(kind)[:, :, query].copy()  # [L, H, m]
    if watched:
        looks = rows[..., watched].sum(axis=-1)
    else:
        special = trace.tgt_special if kind == "decoder_self" else trace.src_special
        passed = {*special, *((query,) if kind != "cross" else ())}
        rows[..., [key for key in passed if key < rows.shape[-1]]] = 0
        looks = rows.max(axis=-1)
    seen: np.ndarray[tuple[int, ...], np.dtype[np.float32]] = looks * (1 - looks)
    return seen


def _asked(param: Param[int | None], n: int) -> int | None:
    """A stored number counted from 1 as an index, None where there is no such one."""
    value = url_state.get(param)
    return value - 1 if value is not None and value <= n else None
