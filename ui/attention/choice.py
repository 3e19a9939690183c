"""The Attention page's choices as one record: which maps, and how to look at them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from transformer.measures.heads import Head, How, mutual_information
from transformer.measures.words import Groups
from transformer.trace.records import Trace
from transformer.types import ATTENTION_KINDS, AttentionKind
from ui.components.grid import Cell
from ui.components.lines import Pin

DISPLAYS = ("grid", "heads", "matrix")

_BITS: WeakKeyDictionary[Trace, dict[AttentionKind, NDArray[np.float64]]] = WeakKeyDictionary()


@dataclass(frozen=True)
class AttentionChoice:
    """The maps to show, limited to what this model and sentence have; indices count from 0.

    Attributes:
        kind, display, units, how, dim: as chosen.
        cell: layer and head of the single map; None combines all layers or all heads.
        chosen: whether the lens shows `heads` combined instead of `cell`.
        heads: the chosen heads, in the order they were chosen; may be empty.
        mass: share of each query's weight that its lines hold.
        pin: the pinned token, as the position of a piece.
        queries, keys: tokens whose weight is summed, as positions of pieces.
    """

    kind: AttentionKind
    display: str
    units: str
    how: How
    dim: bool
    cell: Cell
    chosen: bool
    heads: tuple[Head, ...]
    mass: float
    pin: Pin | None
    queries: tuple[int, ...]
    keys: tuple[int, ...]


def kinds_of(trace: Trace) -> tuple[AttentionKind, ...]:
    """Return the kinds of maps in a trace; at least one."""
    return tuple(kind for kind in ATTENTION_KINDS if trace.attention(kind).size)


def special_keys(trace: Trace, kind: AttentionKind) -> tuple[int, ...]:
    """Return the positions of the special tokens among the keys."""
    return trace.tgt_special if kind == "decoder_self" else trace.src_special


def clearest_head(trace: Trace, kind: AttentionKind, cell: Cell) -> Head:
    """Return the head that the lines open on: `cell`, or the clearest of those that it combines.

    That is the one with the most mutual information of query and key.
    """
    known = _BITS.setdefault(trace, {})
    if kind not in known:
        known[kind] = mutual_information(trace.attention(kind))
    bits = known[kind]
    at = tuple(slice(None) if each is None else slice(each, each + 1) for each in cell)
    among = np.full(bits.shape, -1.0)
    among[at] = bits[at]
    layer, head = divmod(int(among.argmax()), bits.shape[1])
    return layer, head


def to_units(positions: Sequence[int], groups: Groups | None) -> tuple[int, ...]:
    """Return the units (tokens or words) that contain any of these pieces."""
    if groups is None:
        return tuple(positions)
    wanted = set(positions)
    return tuple(at for at, group in enumerate(groups) if wanted & set(group))


def to_pieces(units: Sequence[int], groups: Groups | None) -> tuple[int, ...]:
    """Return all pieces of these units."""
    if groups is None:
        return tuple(units)
    return tuple(position for at in units for position in groups[at])
