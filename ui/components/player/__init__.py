"""The decoding player: tokens, cross-attention on the source, next-token bars, and the matrix.

`encode` turns a trace into one message, all layers and heads at once; `player` mounts the view.
Stepping and choosing a layer or head then happen in the browser without a rerun.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
import streamlit as st

from figures.labels import show_token
from transformer.records import Trace
from ui.components.packing import attention_colours, pack

_FOLDER = Path(__file__).parent
# One module, put together in this order.
_SCRIPTS = ("maps.js", "dom.js", "player.js", "transport.js", "matrix.js")

#: Up to this many weights travel as 16-bit integers (four exact decimals), more as 8-bit ones.
WIDE_LIMIT = 4_000_000

#: Rows of the list of next tokens.
MOST_ALTERNATIVES = 10


@dataclass(frozen=True)
class Place:
    """Where the player stands.

    Attributes:
        step: 1-based decoding step.
        layer, head: 1-based, or None for the mean over them.
    """

    step: int
    layer: int | None = None
    head: int | None = None


_mount = st.components.v2.component(
    "headlight_player",
    css=(_FOLDER / "player.css").read_text(encoding="utf-8"),
    js="\n".join((_FOLDER / name).read_text(encoding="utf-8") for name in _SCRIPTS),
)


def player(message: bytes, *, key: str, on_view_change: Callable[[], None]) -> None:
    """Mount the player.

    Args:
        message: from `encode`.
        on_view_change: called once the user rests; `place_in(st.session_state[key])` is the place.
    """
    _mount(key=key, data=message, on_view_change=on_view_change)


def place_in(held: Any, trace_id: str) -> Place | None:
    """The place a player reported, or None where it reported nothing usable for this trace.

    What comes from a browser is not believed.
    """
    view = held.get("view") if isinstance(held, Mapping) else None
    if not isinstance(view, Mapping) or view.get("trace") != trace_id:
        return None
    step, layer, head = (view.get(name) for name in ("step", "layer", "head"))
    if not _is_index(step) or not all(value is None or _is_index(value) for value in (layer, head)):
        return None
    return Place(step, layer, head)


def encode(trace: Trace, trace_id: str, place: Place, nonce: int = 0) -> bytes:
    """Everything the player shows of a trace, as one message (see `ui.components.packing`).

    Args:
        trace_id: names the trace; comes back with every report.
        place: where to open; out of range it is brought into range, or to the mean.
        nonce: a new number makes a player that is already open go to `place`.

    The body is `trace.cross`, [Ld, H, T, S], as unsigned integers in C order, the largest one
    meaning 1: 16 bits each, or 8 bits for more than `WIDE_LIMIT` weights.
    """
    bits = 16 if trace.cross.size <= WIDE_LIMIT else 8
    kind = np.dtype("<u2") if bits == 16 else np.dtype("u1")
    full = 2**bits - 1
    weights = np.rint(np.clip(trace.cross, 0, 1) * np.float32(full)).astype(kind)
    header = {
        "trace": trace_id,
        "start": {
            "step": place.step - 1,
            "layer": None if place.layer is None else place.layer - 1,
            "head": None if place.head is None else place.head - 1,
            "nonce": nonce,
        },
        "shape": list(trace.cross.shape),
        "bits": bits,
        "source": [show_token(token) for token in trace.src_tokens],
        "input": [show_token(token) for token in trace.tgt_tokens],
        "predicted": [show_token(token) for token in trace.predicted_tokens],
        "unknown": list(trace.src_unknown),
        "special": list(trace.src_special),
        "complete": trace.complete,
        "top": [
            [
                [show_token(token), round(math.exp(log_prob), 6)]
                for token, log_prob in zip(tokens, row.tolist(), strict=True)
            ][:MOST_ALTERNATIVES]
            for tokens, row in zip(trace.top_tokens, trace.top_log_probs, strict=True)
        ],
        "chosen": [
            {"rank": _rank(chosen, ids.tolist()), "probability": round(math.exp(log_prob), 6)}
            for chosen, ids, log_prob in zip(
                trace.predicted_ids, trace.top_ids, trace.log_probs.tolist(), strict=True
            )
        ],
        "entropy": [round(nats / math.log(2), 4) for nats in trace.entropy.tolist()],
        "colours": attention_colours(),
    }
    return pack(header, weights.tobytes())


def _rank(chosen: int, ids: list[int]) -> int:
    """Place of the chosen token among the alternatives shown, -1 where it is not among them."""
    shown = ids[:MOST_ALTERNATIVES]
    return shown.index(chosen) if chosen in shown else -1


def _is_index(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 100_000
