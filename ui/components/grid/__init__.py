"""All layers and heads of a kind of attention in a grid; click or press Enter to choose a map.

Several kinds may be sent together: tabs above the grid then switch between them in the browser,
which reports the choice afterwards.

With Shift, a click or Enter marks heads to be combined; on a combined map, all heads behind it. The
last row combines all layers and the last column all heads, so that every map is a cell that mouse
and keyboard can choose. A switch on every map takes its head out of the model, or the heads that it
combines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from figures.labels import cell_name
from figures.palette import to_weight_bytes
from transformer.measures.entropy import entropy_bits
from transformer.measures.heads import Head, How, mass_by_head, widen
from transformer.types import Bools, Floats
from ui.components.packing import (
    Component,
    attention_look,
    deflate,
    fields,
    fits,
    index_pairs,
    labels,
)

#: Longer sides are shrunk before sending; no cell of the grid is wider.
MAX_SIDE = 128

#: Number of weights up to which all kinds are sent together (6+6 layers of 8 heads: about 200
#: tokens), in a message of at most 2 MB made in half a second.
MOST_AT_ONCE = 6_000_000

#: A cell: (layer, head), 0-based; None combines all of them.
Cell = tuple[int | None, int | None]


class GridChoice(NamedTuple):
    """The choice in a grid: a cell, or the marked heads if there are any; and the current tab."""

    cell: Cell
    marks: tuple[Head, ...]
    kind: str


@dataclass(frozen=True, eq=False)
class Sheet:
    """One kind of attention, encoded for the grid."""

    body: NDArray[np.uint8]  # [bytes], the deflated header and maps, see `fold`
    #: rows, columns: of the grid, including the combined ones
    rows: int
    columns: int


@dataclass(frozen=True, eq=False)
class Tab:
    """One of several kinds that a grid can show."""

    title: str  # its name
    short: str  # a shorter name for narrow windows
    sheet: Sheet | None  # its maps; None if they are sent once it is chosen


def grid_sheet(
    maps: Floats,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    label: str,
    how: How = "mean",
    dimmed_keys: Sequence[int] = (),
) -> Sheet:
    """Return the sheet of maps [L, H, queries, keys].

    Args:
        label: name of the grid for screen readers.
        how: how the last row and column combine layers and heads.
        dimmed_keys: columns covered in grey.

    Sides above `MAX_SIDE` are shrunk by taking the largest weight of each block.
    """
    wide = widen(maps, how)
    bands = [shrink(to_weight_bytes(band), dimmed_keys) for band in wide]
    noted = {"notes": notes(wide, dimmed_keys, spread=how == "mean"), **attention_look()}
    return make_sheet(
        np.stack([band for band, _ in bands]), bands[0][1], query_tokens, key_tokens, how,
        {"label": label, **noted},
    )  # fmt: skip


def make_sheet(
    maps: NDArray[np.uint8],
    dimmed: list[int],
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    how: How,
    header: Mapping[str, Any],
) -> Sheet:
    """Return the sheet of shrunk maps [R, C, n, m], single and combined.

    Args:
        dimmed: columns covered in grey.
        header: what it says beyond names, tokens and sizes.
    """
    rows, columns, queries, keys = maps.shape
    header = {
        **header,
        "row_names": [*(f"Layer {i + 1}" for i in range(rows - 1)), how.capitalize()],
        "column_names": [*(f"Head {i + 1}" for i in range(columns - 1)), how.capitalize()],
        "names": names_of(rows, columns, how),
        "query_tokens": labels(query_tokens),
        "key_tokens": labels(key_tokens),
        "queries": queries,
        "keys": keys,
        "dimmed": dimmed,
        "how": how,
    }
    single, combined = fold(maps, how)
    body = np.frombuffer(deflate(header, single.tobytes(), combined.tobytes()), dtype=np.uint8)
    return Sheet(body, rows, columns)


def grid_component(
    shown: Sheet | Mapping[str, Tab],
    chosen: Cell,
    kind: str = "",
    *,
    marked: Sequence[Head] = (),
    cell_width: int = 120,
    markable: bool = False,
    off: Mapping[str, Bools] | None = None,
    does: Mapping[str, Mapping[Head, tuple[str, str]]] | None = None,
) -> Component[GridChoice]:
    """Return the grid as a component.

    Offline views that follow the choice are named `[layer, head]`, or `[layer, head, kind]` under
    tabs.

    Args:
        shown: the maps of one kind, or several tabs by name.
        chosen: the cell to outline if no heads are marked. A kind that lacks this layer or head
            shows all of them combined, as with None.
        kind: the name of the tab to show, which must have a sheet.
        marked: heads to outline instead of the cell, if the kind has them.
        cell_width: largest width of a map in pixels.
        markable: whether heads can be marked.
        off: the heads [L, H] that are taken out, by the name of the tab; None for a grid without
            switches. With them it reports heads as "switch", see `switched`.
        does: by the name of the tab, what heads do: a word below the map, and a sentence on hover.
    """
    tabs = {"": Tab("", "", shown)} if isinstance(shown, Sheet) else shown
    kinds = [
        [name, tab.title, tab.short, tab.sheet.body.nbytes if tab.sheet else 0]
        for name, tab in tabs.items()
    ]
    header: dict[str, Any] = {"cell_width": cell_width, "markable": markable, "kinds": kinds}
    if off is not None:
        header["off"] = {name: np.argwhere(heads).tolist() for name, heads in off.items()}
    if does:
        header["does"] = {
            name: [[*head, *said] for head, said in heads.items()] for name, heads in does.items()
        }
    sheets = [tab.sheet for tab in tabs.values() if tab.sheet]
    # Choices made elsewhere may be reported back even if no kind has them.
    sizes = [(sheet.rows - 1, sheet.columns - 1) for sheet in sheets]
    sizes += [(layer + 1, head + 1) for layer, head in marked]
    layers, heads = (
        max([size[axis] for size in sizes] + [1 + at for at in (chosen[axis],) if at is not None])
        for axis in (0, 1)
    )

    def parse(reported: Any) -> GridChoice | None:
        if not isinstance(reported, list | tuple) or len(reported) != 4:
            return None
        layer, head, marked, name = reported
        marks = index_pairs(marked, (layers, heads))
        if not fits(layer, (None, range(layers))) or not fits(head, (None, range(heads))):
            return None
        return None if marks is None or not fits(name, (*tabs,)) else GridChoice(
            (layer, head), marks, name
        )  # fmt: skip

    return Component(
        "grid", header, b"".join(sheet.body.tobytes() for sheet in sheets),
        choice=[*chosen, [list(head) for head in marked], kind], parse=parse,
    )  # fmt: skip


class Switched(NamedTuple):
    """Heads of one tab that were switched together."""

    tab: str
    heads: Bools  # [L, H]
    join: bool  # whether they join what was switched before


def switched(reported: Any, off: Mapping[str, Bools]) -> Switched | None:
    """Return the heads that a grid reports as switched, None if the report is not valid."""
    found = fields(reported, kind=tuple(off), join=(True, False))
    if found is None:
        return None
    heads = np.zeros_like(off[found["kind"]])
    places = index_pairs(reported.get("heads"), heads.shape)
    if not places:
        return None
    heads[tuple(zip(*places, strict=True))] = True
    return Switched(found["kind"], heads, found["join"])


def shrink(
    maps: NDArray[np.uint8], dimmed_keys: Sequence[int], side: int = MAX_SIDE, middle: int = 0
) -> tuple[NDArray[np.uint8], list[int]]:
    """Shrink maps to at most `side` by `side`, keeping the byte farthest from `middle` of a block.

    Dimmed columns are ignored, and a block of dimmed columns only is dimmed.

    Args: middle: the byte of no weight, or of no difference.

    Returns: the maps [..., n, m] and the dimmed columns among the m.
    """
    covered = np.zeros(maps.shape[-1], dtype=bool)
    covered[list(dimmed_keys)] = True
    large = max(maps.shape[-2:]) > side
    seen = np.where(covered, np.uint8(middle), maps) if large else maps
    for axis in (-2, -1):
        size = maps.shape[axis]
        if size <= side:
            continue
        starts = np.arange(side) * size // side
        high = np.maximum.reduceat(seen, starts, axis=axis)
        if middle:
            low = np.minimum.reduceat(seen, starts, axis=axis)
            high = np.where(
                high.astype(np.int16) - middle >= middle - low.astype(np.int16), high, low
            )
        seen = high
        if axis == -1:
            covered = np.logical_and.reduceat(covered, starts)
    return seen, np.flatnonzero(covered).tolist()


def fold(maps: NDArray[np.uint8], how: How) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Split a grid's maps [R, C, n, m] into two parts that compress well.

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
    """Return the integer mean, rounded half up as in JavaScript."""
    return ((2 * sums + count) // (2 * count)).astype(np.uint8)


def notes(maps: Floats, dimmed_keys: Sequence[int], *, spread: bool) -> list[list[list[float]]]:
    """Return the numbers in the sentence about each cell [R, C, n, m].

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
            hidden = float(mass_by_head(each, (), dimmed_keys)) if dimmed_keys else 0.0
            line.append(
                [query, key, round(float(each[query, key]), 2), round(keys, 1), round(hidden, 3)]
            )
        lines.append(line)
    return lines


def names_of(rows: int, columns: int, how: How) -> list[list[str]]:
    """Return the name of every cell in a grid with combined maps."""
    cells = [[*range(count - 1), None] for count in (rows, columns)]
    return [[cell_name((r, c), how).capitalize() for c in cells[1]] for r in cells[0]]
