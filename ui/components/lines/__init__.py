"""Attention as lines: query tokens on the left, key tokens on the right, one colour per head.

Only the lines that `kept_lines` selects are sent. The browser draws, isolates and pins them, and
reports the chosen heads and token.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from figures.palette import ROLES, THEMES, categorical
from transformer.measures.heads import Head, information, kept_lines
from transformer.types import Floats
from ui.components.packing import Component, fits, index_pairs, labels

#: A pinned token: its side and its position.
Pin = tuple[Literal["query", "key"], int]

_SCALE = 65535


@dataclass(frozen=True, eq=False)
class Drawing:
    """Lines of some heads."""

    header: dict[str, Any]  # message header without the choice
    #: [bytes]: uint32 line counts per [head, query], then one uint32 per line in the same order:
    #: its key (upper 16 bits) and weight (lower 16 bits, 65535 = 1)
    body: NDArray[np.uint8]
    heads: tuple[Head, ...]  # in order of colour assignment
    shape: tuple[int, int, int, int]  # layers, heads, queries, keys of the model's maps
    lines: int  # number of lines
    share: float  # fraction of the heads' weight that the lines hold

    def component(
        self, pinned: Pin | None = None, max_height: int = 640
    ) -> Component[tuple[tuple[Head, ...], Pin | None]]:
        """Return the lines, with a legend that switches heads on and off, as a component.

        Args:
            pinned: show this token's lines alone until another token is hovered.
            max_height: largest height of the token lists in pixels; longer ones scroll.
        """
        heads = [list(head) for head in self.heads]
        return Component(
            "lines", {**self.header, "max_height": max_height}, self.body.tobytes(),
            choice={"heads": heads, "pin": None if pinned is None else list(pinned)},
            parse=lambda reported: parse_choice(reported, self.shape),
        )  # fmt: skip


def drawing(
    maps: Floats, heads: Sequence[Head], query_tokens: Sequence[str], key_tokens: Sequence[str], *,
    mass: float, query_title: str, key_title: str, dimmed_keys: Sequence[int] = (),
    causal: bool = False,
) -> Drawing:  # fmt: skip
    """Return the lines of some heads of the maps [L, H, queries, keys].

    Args:
        heads: any number; up to 16 colours are easy to distinguish.
        mass: keep the fewest lines that hold this share of a query's weight in a head.
        dimmed_keys: drop the lines of these keys, which still count in the share.
        causal: mask keys after the query.
    """
    shape = maps.shape
    chosen = maps[[layer for layer, _ in heads], [head for _, head in heads]]  # [k, n, m]
    keep = kept_lines(chosen, mass)
    keep[..., list(dimmed_keys)] = False
    _, _, key = np.nonzero(keep)
    weights = chosen[keep]
    counts = keep.sum(axis=-1).astype("<u4")
    packed = (key.astype("<u4") << 16) | np.rint(
        np.clip(weights, 0, 1).astype(np.float64) * _SCALE
    ).astype("<u4")
    total = float(chosen.sum(dtype=np.float64))
    slots = colour_slots(heads)
    palettes = {theme: categorical(max(slots, default=0) + 1, theme) for theme in THEMES}
    header = {
        "label": f"Lines from {shape[2]} queries to {shape[3]} keys",
        "layers": shape[0],
        "heads": shape[1],
        "drawn": [list(head) for head in heads],
        "colours": {theme: [palettes[theme][slot] for slot in slots] for theme in THEMES},
        "query_tokens": labels(query_tokens, 20),
        "key_tokens": labels(key_tokens, 20),
        "query_title": f"query: {query_title}",
        "key_title": f"key: {key_title}",
        "dimmed": sorted(dimmed_keys),
        "causal": causal,
        "roles": ROLES,
        # Several heads open on the query whose weights differ most from the others'.
        "lead": int(information(chosen).mean(axis=0).argmax()) if len(heads) else 0,
    }
    body = np.frombuffer(counts.tobytes() + packed.tobytes(), dtype=np.uint8)
    share = float(weights.sum(dtype=np.float64)) / total if total else 0.0
    return Drawing(header, body, tuple(heads), shape, int(keep.sum()), share)


def colour_slots(heads: Sequence[Head]) -> tuple[int, ...]:
    """Return a distinct colour number for every head; up to 16 heads share the first 16.

    A head takes its own number or else the next free one, so that heads of one layer keep their
    colours while others are switched on and off.
    """
    slots: list[int] = []
    limit = max(16, len(heads))
    for _, head in heads:
        candidates = (*range(head % 16, limit), *range(head % 16))
        slots.append(next(slot for slot in candidates if slot not in slots))
    return tuple(slots)


def parse_choice(
    reported: Any, shape: tuple[int, int, int, int]
) -> tuple[tuple[Head, ...], Pin | None] | None:
    """Return the reported heads and pinned token, or None if they are invalid."""
    if not isinstance(reported, dict):
        return None
    heads, pin = index_pairs(reported.get("heads"), shape[:2]), reported.get("pin")
    if heads is None or pin is None:
        return None if heads is None else (heads, None)
    if not isinstance(pin, list) or len(pin) != 2 or not fits(pin[0], ("query", "key")):
        return None
    return (heads, (pin[0], pin[1])) if fits(pin[1], range(shape[2 + (pin[0] == "key")])) else None
