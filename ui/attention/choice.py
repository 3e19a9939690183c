"""What is chosen on the Attention page, as one record: which maps, and how to look at them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from transformer.measures.heads import Head, How
from transformer.measures.words import Groups
from transformer.trace.records import Trace
from transformer.types import ATTENTION_KINDS, AttentionKind
from ui.components.grid import Cell
from ui.components.lines import Pin

DISPLAYS = ("grid", "heads", "matrix")


@dataclass(frozen=True)
class AttentionChoice:
    """What the page shows, as far as this model and sentence have it; indices from 0.

    Attributes:
        kind, display, units, how, dim: as chosen.
        cell: the single map; None for a layer or head is all of them, combined.
        chosen: whether the map under the lens combines `heads` in place of showing `cell`.
        heads: the chosen heads, in the order chosen; possibly none.
        mass: share of a query's weight that its lines hold.
        pin: the pinned token, a position of a piece.
        queries, keys: tokens to add up, positions of pieces.
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
    """The kinds of maps that a trace holds; at least one."""
    return tuple(kind for kind in ATTENTION_KINDS if trace.attention(kind).size)


def special_keys(trace: Trace, kind: AttentionKind) -> tuple[int, ...]:
    """Positions of the special tokens among the keys."""
    return trace.tgt_special if kind == "decoder_self" else trace.src_special


def to_units(positions: Sequence[int], groups: Groups | None) -> tuple[int, ...]:
    """The units that hold any of these pieces."""
    if groups is None:
        return tuple(positions)
    wanted = set(positions)
    return tuple(at for at, group in enumerate(groups) if wanted & set(group))


def to_pieces(units: Sequence[int], groups: Groups | None) -> tuple[int, ...]:
    """All pieces of these units."""
    if groups is None:
        return tuple(units)
    return tuple(position for at in units for position in groups[at])
