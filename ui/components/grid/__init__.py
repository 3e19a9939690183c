"""All layers and heads of a kind of attention in a grid; click or press Enter to choose a map.

Several kinds may travel together: then tabs above the grid change to another one in the browser,
without waiting for the server, which hears of it afterwards.

With Shift, a click or Enter marks heads to be combined; on a combined map, all heads behind it. The
last row combines all layers and the last column all heads, so that every map one can read is a cell
one can choose, with the mouse and with the keyboard.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from figures.attention import entropy_bits, mass_on
from figures.labels import show_token
from figures.palette import to_weight_bytes
from transformer.measures.heads import Head, How, widen
from transformer.types import Floats
from ui.components.packing import attention_look, deflate, still

#: Sides longer than this are shrunk before they are sent. A cell of the grid is never that wide.
MAX_SIDE = 128

#: Weights up to which all kinds travel together (6+6 layers of 8 heads: to about 200 tokens). Made
#: in half a second, it is a message of 2 MB at most.
MOST_AT_ONCE = 6_000_000


#: A cell: (layer, head), 0-based; None is all of them, combined.
Cell = tuple[int | None, int | None]


@dataclass(frozen=True, eq=False)
class Sheet:
    """What the grid shows of one kind of attention: made once, drawn many times.

    Attributes:
        body: [bytes], what the maps are and the maps, as `fold` has them, deflated.
        rows, columns: of the grid, the combined ones among them.
    """

    body: NDArray[np.uint8]
    rows: int
    columns: int


@dataclass(frozen=True, eq=False)
class Tab:
    """One of several kinds that a grid can show.

    Attributes:
        title: what it is called.  short: the same where there is little room.
        sheet: its maps; None where they are sent when it is chosen.
    """

    title: str
    short: str
    sheet: Sheet | None


def grid_sheet(
    maps: Floats,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    label: str,
    how: How = "mean",
    dimmed_keys: Sequence[int] = (),
) -> Sheet:
    """The sheet for the maps [L, H, queries, keys], any number of layers and heads.

    Args:
        label: what a screen reader calls the grid.
        how: how the last row and column combine layers and heads.
        dimmed_keys: columns covered in grey.

    Sides above `MAX_SIDE` are shrunk by taking the largest weight of each block.
    """
    wide = widen(maps, how)
    rows, columns = wide.shape[:2]
    bands = [shrink(to_weight_bytes(band), dimmed_keys) for band in wide]
    pooled = np.stack([band for band, _ in bands])
    header = {
        "label": label,
        "row_names": [*(f"Layer {i + 1}" for i in range(rows - 1)), how.capitalize()],
        "column_names": [*(f"Head {i + 1}" for i in range(columns - 1)), how.capitalize()],
        "names": [
            [name_of(row, column, rows, columns, how) for column in range(columns)]
            for row in range(rows)
        ],
        "notes": notes(wide, dimmed_keys, spread=how == "mean"),
        "query_tokens": [show_token(token) for token in query_tokens],
        "key_tokens": [show_token(token) for token in key_tokens],
        "queries": pooled.shape[-2],
        "keys": pooled.shape[-1],
        "dimmed": bands[0][1],
        "how": how,
        **attention_look(),
    }
    single, combined = fold(pooled, how)
    body = np.frombuffer(deflate(header, single.tobytes(), combined.tobytes()), dtype=np.uint8)
    return Sheet(body, rows, columns)


def still_grid(shown: Sheet | Mapping[str, Tab], chosen: Cell, kind: str = "") -> bytes:
    """The grid's message for a page without a server; see `mount.attention_grid`.

    What follows the choice there is called `[layer, head]`, or `[layer, head, kind]` under tabs.
    """
    header, body = content(as_tabs(shown), cell_width=120, markable=False)
    return still({**header, "still": True}, body, [*chosen, [], kind])


def as_tabs(shown: Sheet | Mapping[str, Tab]) -> Mapping[str, Tab]:
    """The tabs of what is shown; one kind alone is a tab without a name."""
    return {"": Tab("", "", shown)} if isinstance(shown, Sheet) else shown


def content(
    tabs: Mapping[str, Tab], *, cell_width: int, markable: bool
) -> tuple[dict[str, Any], bytes]:
    """The header and body of the grid's message, without what is chosen.

    Args:
        cell_width: most pixels that a map may take across.
        markable: whether heads can be marked.
    """
    kinds = [
        [name, tab.title, tab.short, tab.sheet.body.nbytes if tab.sheet else 0]
        for name, tab in tabs.items()
    ]
    body = b"".join(tab.sheet.body.tobytes() for tab in tabs.values() if tab.sheet)
    return {"cell_width": cell_width, "markable": markable, "kinds": kinds}, body


def parse_choice(reported: Any, n_layers: int, n_heads: int) -> Cell | None:
    """The cell that the browser reports, or None where it says nothing that fits these sizes."""
    if not isinstance(reported, list | tuple) or len(reported) != 2:
        return None
    for number, limit in zip(reported, (n_layers, n_heads), strict=True):
        if number is None:
            continue
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < limit:
            return None
    return reported[0], reported[1]


def parse_marks(reported: Any, n_layers: int, n_heads: int) -> tuple[Head, ...] | None:
    """The heads that the browser says are marked, or None where that does not fit these sizes."""
    if not isinstance(reported, list | tuple) or len(reported) > n_layers * n_heads:
        return None
    heads = []
    for each in reported:
        cell = parse_choice(each, n_layers, n_heads)
        if cell is None or None in cell:
            return None
        heads.append((int(each[0]), int(each[1])))
    return tuple(heads) if len(set(heads)) == len(heads) else None


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


def fold(maps: NDArray[np.uint8], how: How) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Maps [R, C, n, m] of a grid with combined ones, in two parts that pack well.

    Returns: the single heads [R - 1, C - 1, n, m]; and the combined maps, the last column from top
    to bottom and then the last row without its last one [R + C - 1, n, m], each as the difference
    (modulo 256) to what the bytes of the single heads combine to, which the browser works out. A
    mean of rounded weights is nearly the rounded mean, so few differences are not 0, and the
    browser still draws every combined map as exact as a single one.
    """
    single, column, row = maps[:-1, :-1], maps[:, -1], maps[-1, :-1]
    if how == "max":
        expected = single.max(axis=1), single.max(axis=(0, 1))[None], single.max(axis=0)
    else:
        by_layer = single.sum(axis=1, dtype=np.uint32)
        n_layers, n_heads = single.shape[:2]
        expected = (
            _mean(by_layer, n_heads),
            _mean(by_layer.sum(axis=0, dtype=np.uint32), n_layers * n_heads)[None],
            _mean(single.sum(axis=0, dtype=np.uint32), n_layers),
        )
    return single, np.concatenate([column, row]) - np.concatenate(expected)


def _mean(sums: NDArray[np.uint32], count: int) -> NDArray[np.uint8]:
    """Rounded half up, in whole numbers: JavaScript comes to the same."""
    return ((2 * sums + count) // (2 * count)).astype(np.uint8)


def notes(maps: Floats, dimmed_keys: Sequence[int], *, spread: bool) -> list[list[list[float]]]:
    """What stands out in each cell [R, C, n, m]: the numbers of the sentence about it.

    Returns: for each cell the query, key and size of its largest weight, over how many keys its
    rows spread on average (2 to the power of their entropy in bits; 0 where rows are no
    distributions and `spread` is off), and the share of its weight on the dimmed keys.
    """
    lines = []
    for band in maps:
        line = []
        for each in band:
            query, key = divmod(int(np.argmax(each)), each.shape[1])
            keys = float((2 ** entropy_bits(each)).mean()) if spread else 0.0
            hidden = float(mass_on(each, dimmed_keys)) if dimmed_keys else 0.0
            line.append(
                [query, key, round(float(each[query, key]), 2), round(keys, 1), round(hidden, 3)]
            )
        lines.append(line)
    return lines


def name_of(row: int, column: int, rows: int, columns: int, how: How = "mean") -> str:
    """What the cell in this row and column of a grid with combined ones is called."""
    over = "mean over" if how == "mean" else "maximum over"
    if row == rows - 1 and column == columns - 1:
        return f"{over.capitalize()} all layers and heads"
    if row == rows - 1:
        return f"Head {column + 1}, {over} layers"
    if column == columns - 1:
        return f"Layer {row + 1}, {over} heads"
    return f"Layer {row + 1}, head {column + 1}"
