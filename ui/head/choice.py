"""The URL parameters of the page "Inside a head", and its defaults.

Layer, head and kind are shared with the other pages, so that a head that stands out there can be
opened here. A mean over layers or heads has no inside; the page then picks a head with much to see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from transformer.trace.records import Trace
from transformer.types import ATTENTION_KINDS, AttentionKind
from ui.components.stages import MOST_DIVISOR, Chosen
from ui.core import url_state
from ui.core.choice import Choice
from ui.core.url_state import HEAD, KIND, LAYER, STEP, Param
from ui.core.view import View
from ui.head.exhibits import HeadChoice


def parse_divisor(raw: str) -> float | None:
    """Parse a number; `on` and `off`, of older links, are the model's and no division."""
    return {"on": None, "off": 1.0}[raw] if raw in ("on", "off") else _divisor(raw)


_divisor = url_state.number(1, MOST_DIVISOR)


@dataclass(frozen=True)
class HeadSettings(Choice):
    """The URL parameters; `scaling` is what q · k is divided by, None the model's sqrt(d_k).

    Query and key belong to one request and kind.
    """

    kind: Param[str] = KIND
    layer: Param[int | None] = LAYER
    head: Param[int | None] = HEAD
    query: Param[int | None] = url_state.position("query", of="request kind compared")
    key: Param[int | None] = url_state.position("key", of="request kind compared")
    scaling: Param[float | None] = Param("scaling", parse_divisor, None)
    step: Param[int | None] = STEP


def place_now(view: View, trace: Trace) -> HeadChoice:
    """Return the stored place, with defaults for anything not set or not in this trace."""
    kind = kind_now(trace)
    stored = map(url_state.get, (LAYER, HEAD, HeadSettings.query))
    return place_of(view, trace, kind, *url_state.indices(stored, trace.attention(kind).shape))


def shared_kinds(traces: Sequence[Trace]) -> tuple[AttentionKind, ...]:
    """Return the kinds of maps that all traces have; a model of one stack has one."""
    return tuple(
        kind for kind in ATTENTION_KINDS if all(each.attention(kind).size for each in traces)
    )


def kind_now(*traces: Trace) -> AttentionKind:
    """Return the stored kind, or the last that all of these traces have; there has to be one."""
    kinds = shared_kinds(traces)
    return next((kind for kind in kinds if kind == url_state.get(KIND)), kinds[-1])


def place_of(view: View, trace: Trace, kind: AttentionKind, *at: int | None) -> HeadChoice:
    """Return a place in this trace: layer, head and query, with defaults for None."""
    layer, head, query = at
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
    layer, head, query = (at + 1 for at in (place.layer, place.head, place.query))
    url_state.store({LAYER: layer, HEAD: head, HeadSettings.query: query})


def chosen_now(
    trace: Trace, place: HeadChoice, param: Param[int | None] = HeadSettings.key
) -> Chosen:
    """Return the key to follow, by default the one with the largest weight, and the divisor."""
    row = trace.attention(place.kind)[place.layer, place.head, place.query]
    at = url_state.index(param, len(row), int(row.argmax()))
    return Chosen(at, url_state.get(HeadSettings.scaling))


def keep_chosen(chosen: Chosen, param: Param[int | None] = HeadSettings.key) -> None:
    """Store the key chosen in the picture in `param`, and the divisor."""
    url_state.store({param: chosen.key + 1, HeadSettings.scaling: chosen.divisor})


def default_query(view: View, trace: Trace, kind: AttentionKind) -> int:
    """Return a query worth opening on, from 0.

    In the decoder it is the player's step, or the query that looks most at the word the example is
    about; in the encoder it is that word itself. Without such a word it is a token in the middle.
    """
    watched = _watched(view, trace)
    if kind == "encoder_self":
        return watched[0] if watched else (len(trace.src_tokens) - 1) // 2
    n_queries = len(trace.tgt_tokens)
    step = url_state.index(STEP, n_queries)
    if step is not None:
        return step
    if watched and trace.cross.size:
        return int(trace.cross.mean(axis=(0, 1))[:, watched].sum(axis=1).argmax())
    return n_queries // 2


def _watched(view: View, trace: Trace) -> list[int]:
    """Return the positions of the word that the example is about."""
    example = view.examples.find(view.sentence)
    return example.watched(trace.src_tokens) if example else []


def _interest(
    trace: Trace, kind: AttentionKind, query: int, watched: list[int]
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Return how much each head has to show, [L, H]: w (1 - w) for the weight w on watched keys.

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
