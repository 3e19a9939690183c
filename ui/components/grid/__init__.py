"""All layers and heads of one kind of attention in a grid; click or press Enter to choose a map.

The last row is the mean over layers and the last column the mean over heads, so that every map one
can read is a cell one can choose, with the mouse and with the keyboard.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from figures.attention import describe, mass_on
from figures.palette import CHROME, THEMES, to_weight_bytes
from transformer.records import Floats
from ui.components.packing import attention_colours, pack, script

#: Sides longer than this are shrunk before they are sent. A cell of the grid is never that wide.
MAX_SIDE = 128

_HERE = Path(__file__).parent
_component = st.components.v2.component(
    "headlight.grid",
    html='<div class="maps"></div>',
    css=(_HERE / "grid.css").read_text("utf-8"),
    js=script(_HERE / "grid.js"),
)

#: A cell: (layer, head), 0-based; None is the mean over all of them.
Cell = tuple[int | None, int | None]


def attention_grid(
    maps: Floats,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    chosen: Cell,
    on_choose: Callable[[Cell], None],
    label: str,
    key: str,
    dimmed_keys: Sequence[int] = (),
    cell_width: int = 120,
) -> None:
    """Show every map of one kind, [L, H, queries, keys], and report the one that is chosen.

    Args:
        maps: any number of layers and heads; sides above `MAX_SIDE` are shrunk for the grid by
            taking the largest weight of each block.
        chosen: the cell to outline.
        on_choose: called with the new cell before the script reruns.
        label: what a screen reader calls the grid.
        dimmed_keys: columns covered in grey.
        cell_width: most pixels that a map may take across.
    """
    n_layers, n_heads = maps.shape[:2]
    with_means = add_means(maps)
    pooled, dimmed = shrink(to_weight_bytes(with_means), dimmed_keys)
    body = pooled.tobytes()
    header: dict[str, Any] = {
        "label": label,
        "row_names": [*(f"Layer {i + 1}" for i in range(n_layers)), "Mean"],
        "column_names": [*(f"Head {i + 1}" for i in range(n_heads)), "Mean"],
        "cell_width": cell_width,
        "queries": pooled.shape[-2],
        "keys": pooled.shape[-1],
        "dimmed": dimmed,
        "summaries": summaries(with_means, query_tokens, key_tokens, dimmed_keys),
        "colours": attention_colours(),
        "cover": {theme: CHROME[theme].rule.lstrip("#") for theme in THEMES},
    }
    record = f"{key}-sent"
    layer, head = chosen
    outlined = [n_layers if layer is None else layer, n_heads if head is None else head]
    header |= _outline(record, outlined, content=repr(header).encode() + body)

    def changed() -> None:
        reported = st.session_state[key].get("chosen")
        cell = parse_choice(reported, n_layers, n_heads)
        if cell is not None:
            st.session_state[record]["known"] = list(reported)
            on_choose(cell)

    _component(key=key, data=pack(header, body), on_chosen_change=changed)


def parse_choice(reported: Any, n_layers: int, n_heads: int) -> Cell | None:
    """The cell that the browser reports, or None where it says nothing that fits this grid."""
    if not isinstance(reported, list | tuple) or len(reported) != 2:
        return None
    row, column = reported
    for number, limit in ((row, n_layers), (column, n_heads)):
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= limit:
            return None
    return (None if row == n_layers else row, None if column == n_heads else column)


def pick(maps: Floats, cell: Cell) -> Floats:
    """The map of one cell. Shapes: [L, H, queries, keys] to [queries, keys]; float32."""
    layer, head = cell
    layers = maps if layer is None else maps[layer : layer + 1]
    heads = layers if head is None else layers[:, head : head + 1]
    mean: Floats = heads.mean(axis=(0, 1), dtype=np.float64).astype(np.float32)
    return mean


def add_means(maps: Floats) -> Floats:
    """The maps with the mean over heads as a last column and over layers as a last row.

    Shapes: [L, H, n, m] to [L + 1, H + 1, n, m].
    """
    wide = np.concatenate([maps, maps.mean(axis=1, keepdims=True)], axis=1)
    return np.concatenate([wide, wide.mean(axis=0, keepdims=True)], axis=0)


def shrink(
    maps: NDArray[np.uint8], dimmed_keys: Sequence[int], side: int = MAX_SIDE
) -> tuple[NDArray[np.uint8], list[int]]:
    """Maps of at most `side` by `side`, each cell the largest weight of its block.

    Dimmed columns do not count, and a block of nothing else is dimmed. The order stays.

    Returns: the maps [..., n, m] and the dimmed columns among the m.
    """
    n, m = maps.shape[-2:]
    covered = np.zeros(m, dtype=bool)
    covered[list(dimmed_keys)] = True
    if n <= side and m <= side:
        return maps, np.flatnonzero(covered).tolist()
    seen = np.where(covered, np.uint8(0), maps)
    for axis, size in ((-2, n), (-1, m)):
        if size > side:
            starts = np.arange(side) * size // side
            seen = np.maximum.reduceat(seen, starts, axis=axis)
            if axis == -1:
                covered = np.logical_and.reduceat(covered, starts)
    return seen, np.flatnonzero(covered).tolist()


def summaries(
    maps: Floats,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    dimmed_keys: Sequence[int],
) -> list[list[str]]:
    """One sentence for each cell of a grid with means: what it is and what stands out in it."""
    hidden = mass_on(maps, dimmed_keys)
    lines = []
    for row in range(maps.shape[0]):
        line = []
        for column in range(maps.shape[1]):
            text = describe(maps[row, column], query_tokens, key_tokens)
            text = f"{name_of(row, column, *maps.shape[:2])}: {text.split('; ', 1)[1]}"
            if dimmed_keys:
                text += f"; {hidden[row, column]:.0%} of it dimmed"
            line.append(f"{text}.")
        lines.append(line)
    return lines


def name_of(row: int, column: int, rows: int, columns: int) -> str:
    """What the cell in this row and column of a grid with means is called."""
    if row == rows - 1 and column == columns - 1:
        return "Mean over all layers and heads"
    if row == rows - 1:
        return f"Head {column + 1}, mean over layers"
    if column == columns - 1:
        return f"Layer {row + 1}, mean over heads"
    return f"Layer {row + 1}, head {column + 1}"


def _outline(record: str, chosen: list[int], content: bytes) -> dict[str, Any]:
    """The part of the header that says which cell is outlined.

    The browser outlines what is clicked at once. Saying so again would change the message and send
    all the maps again, so the message keeps its first cell until its content changes or the choice
    comes from elsewhere (a link, another page); a new revision then tells the browser to obey.
    """
    digest = hashlib.blake2b(content, digest_size=16).hexdigest()
    sent = st.session_state.get(record)
    if sent is None or sent["digest"] != digest or sent["known"] != chosen:
        count = 0 if sent is None else sent["count"] + 1
        sent = {"digest": digest, "count": count, "known": chosen, "chosen": chosen}
        st.session_state[record] = sent
    return {"chosen": sent["chosen"], "revision": f"{sent['count']}-{digest}"}
