"""Grid of attention maps, one per layer and head; click or press Enter to choose a map.

Several kinds of attention may be sent together. Tabs then switch between them in the browser, which
reports the choice afterwards. A grid of two models' differences has diverging colours and one scale
for all cells.

The last row combines all layers and the last column all heads. Shift with a click or Enter marks
heads to combine; on a combined map, all heads behind it. A switch on every map takes its heads out
of the model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from figures.attention import describe_difference, scale_limit
from figures.labels import cell_name
from figures.palette import to_weight_bytes
from transformer.measures.compare import divergence
from transformer.measures.heads import Head, How, entropy_bits, mass_by_head, widen
from transformer.types import Bools, Floats
from ui.components import packing
from ui.components.packing import attention_look

#: Longest side of a map that is sent; no grid cell is wider.
MAX_SIDE = 128

#: Largest number of weights that are sent for all kinds together (6+6 layers with 8 heads: about
#: 200 tokens). Such a message has at most 3 MB and takes half a second.
MOST_AT_ONCE = 6_000_000

#: (layer, head), 0-based; None combines all of them.
Cell = tuple[int | None, int | None]


class GridChoice(NamedTuple):
    """A choice in a grid: the cell, marked heads, which take precedence, and the current tab."""

    cell: Cell
    marks: tuple[Head, ...]
    kind: str


@dataclass(frozen=True, eq=False)
class Sheet:
    """Maps of one kind of attention, encoded for the grid."""

    body: NDArray[np.uint8]  # [bytes], the deflated header and maps
    #: rows, columns: grid size including combined maps
    rows: int
    columns: int


@dataclass(frozen=True, eq=False)
class Tab:
    """A grid's tab for one kind of attention."""

    title: str  # tab name
    short: str  # name in narrow windows
    sheet: Sheet | None  # maps; None if they are sent on demand


def grid_sheet(
    maps: Floats, query_tokens: Sequence[str], key_tokens: Sequence[str], *, label: str,
    how: How = "mean", dimmed_keys: Sequence[int] = (), wide: Floats | None = None,
    noun: str = "", named: str = "",
) -> Sheet:  # fmt: skip
    """Return the sheet of maps [L, H, queries, keys].

    Args:
        wide: [L + 1, H + 1, queries, keys], if layers and heads together are not their means.
        noun: name of a number in the maps, "" for attention weights.
        named: how combined maps are named, by default as `how`; see `figures.labels.cell_name`.
        label: grid name for screen readers.
        how: how the last row and column combine layers and heads.
        dimmed_keys: columns to cover in grey.

    Sides above `MAX_SIDE` are shrunk to the largest weight per block.
    """
    wide = widen(maps, how) if wide is None else wide
    spread = how == "mean" and np.allclose(wide.sum(-1), 1, atol=1e-3)
    bands = [shrink(to_weight_bytes(band), dimmed_keys) for band in wide]
    noted = {"notes": notes(wide, dimmed_keys, spread=spread), **packing.attention_look(noun=noun)}
    return make_sheet(
        np.stack([band for band, _ in bands]), bands[0][1], query_tokens, key_tokens, how,
        {"label": label, **noted}, named,
    )  # fmt: skip


def make_sheet(
    maps: NDArray[np.uint8], dimmed: list[int], query_tokens: Sequence[str],
    key_tokens: Sequence[str], how: How, header: Mapping[str, Any],
    named: str = "",
) -> Sheet:  # fmt: skip
    """Return the sheet of shrunk maps [R, C, n, m], single and combined.

    Args:
        dimmed: columns to cover in grey.
        header: further entries next to names, tokens and sizes.
    """
    rows, columns, queries, keys = maps.shape
    last = "Together" if named == "together" else how.capitalize()
    header = {
        **header,
        "row_names": [*(f"Layer {i + 1}" for i in range(rows - 1)), how.capitalize()],
        "column_names": [*(f"Head {i + 1}" for i in range(columns - 1)), last],
        "names": names_of(rows, columns, named or how),
        "query_tokens": packing.labels(query_tokens),
        "key_tokens": packing.labels(key_tokens),
        "queries": queries,
        "keys": keys,
        "dimmed": dimmed,
    }
    body = np.frombuffer(packing.deflate(header, maps.tobytes()), dtype=np.uint8)
    return Sheet(body, rows, columns)


def grid_component(
    shown: Sheet | Mapping[str, Tab], chosen: Cell, kind: str = "", *, marked: Sequence[Head] = (),
    cell_width: int = 120, markable: bool = False, off: Mapping[str, Bools] | None = None,
    does: Mapping[str, Mapping[Head, tuple[str, str]]] | None = None,
) -> packing.Component[GridChoice]:  # fmt: skip
    """Return the grid as a component.

    Offline views that follow the choice are named `[layer, head]`, or `[layer, head, kind]` if the
    grid has tabs.

    Args:
        shown: maps of one kind, or tabs by name.
        chosen: cell to outline if no heads are marked. A kind without this layer or head outlines
            the combined map instead.
        kind: name of the tab to show, which must have a sheet.
        marked: heads to outline instead of the cell, if the kind has them.
        cell_width: largest map width in pixels.
        markable: allow heads to be marked.
        off: removed heads [L, H], by tab name; None omits the switches, which report
            heads as "switch" (see `switched`).
        does: head roles by tab name: a word below the map and a sentence on hover.
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
            name: [[*head, *texts] for head, texts in heads.items()] for name, heads in does.items()
        }
    sheets = [tab.sheet for tab in tabs.values() if tab.sheet]
    # The browser may report a choice from elsewhere that no kind on screen has.
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
        marks = packing.index_pairs(marked, (layers, heads))
        if not packing.fits(layer, (None, range(layers))) or not packing.fits(
            head, (None, range(heads))
        ):
            return None
        return None if marks is None or not packing.fits(name, (*tabs,)) else GridChoice(
            (layer, head), marks, name
        )  # fmt: skip

    return packing.Component(
        "grid", header, b"".join(sheet.body.tobytes() for sheet in sheets),
        choice=[*chosen, [list(head) for head in marked], kind], parse=parse,
    )  # fmt: skip


class Switched(NamedTuple):
    """Heads of one tab that were switched together."""

    tab: str
    heads: Bools  # [L, H]
    join: bool  # whether they join those switched before


def switched(reported: Any, off: Mapping[str, Bools]) -> Switched | None:
    """Return the heads that a grid reports as switched, or None if the report is invalid."""
    report = packing.fields(reported, kind=tuple(off), join=(True, False))
    if report is None:
        return None
    heads = np.zeros_like(off[report["kind"]])
    places = packing.index_pairs(reported.get("heads"), heads.shape)
    if not places:
        return None
    heads[tuple(zip(*places, strict=True))] = True
    return Switched(report["kind"], heads, report["join"])


def shrink(
    maps: NDArray[np.uint8], dimmed_keys: Sequence[int], side: int = MAX_SIDE, middle: int = 0
) -> tuple[NDArray[np.uint8], list[int]]:
    """Shrink maps to at most `side` by `side`, keeping each block's byte farthest from `middle`.

    Dimmed columns are ignored; a block with only dimmed columns is dimmed.

    Args: middle: the byte for no weight or no difference.

    Returns: maps [..., n, m] and their dimmed columns.
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


def notes(maps: Floats, dimmed_keys: Sequence[int], *, spread: bool) -> list[list[list[float]]]:
    """Return the numbers that describe every cell of maps [R, C, n, m].

    Returns: query, key and size of the cell's largest weight; the number of keys over which its
    rows spread on average (2 to the power of their entropy in bits; 0 if `spread` is off, for rows
    that are not distributions); the share of its weight on dimmed keys.
    """

    def describe(weights: Floats) -> list[float]:
        query, key = divmod(int(np.argmax(weights)), weights.shape[1])
        keys = float((2 ** entropy_bits(weights)).mean()) if spread else 0.0
        hidden = float(mass_by_head(weights, (), dimmed_keys)) if dimmed_keys else 0.0
        return [query, key, round(float(weights[query, key]), 2), round(keys, 1), round(hidden, 3)]

    return [[describe(weights) for weights in band] for band in maps]


def names_of(rows: int, columns: int, how: str) -> list[list[str]]:
    """Return all cell names of a grid with combined maps."""
    cells = [[*range(count - 1), None] for count in (rows, columns)]
    return [[cell_name((r, c), how).capitalize() for c in cells[1]] for r in cells[0]]


#: Byte for a difference of 0.
_MIDDLE = 128


def difference_sheet(
    one: Floats, other: Floats, query_tokens: Sequence[str], key_tokens: Sequence[str], *,
    label: str, ends: tuple[str, str], how: How = "mean", dimmed_keys: Sequence[int] = (),
) -> Sheet:  # fmt: skip
    """Return the sheet of `one - other`, head by head, for `grid_component`.

    Heads that only one side has are left out, but count in its combined maps.

    Args:
        one, other: [L, H, n, m], with the same queries and keys.
        label: grid name for screen readers.
        ends: names of both ends of the scale, negative first.
        how: how the last row and column combine layers and heads.
        dimmed_keys: columns to cover in grey.

    Sides above `MAX_SIDE` are shrunk to the largest absolute difference per block. Raises
    `ValueError` if the numbers of queries or keys differ.
    """
    layers, heads = np.minimum(one.shape[:2], other.shape[:2]).tolist()
    rows, columns = [*range(layers), -1], [*range(heads), -1]
    left, right = (widen(maps, how)[rows][:, columns] for maps in (one, other))
    apart = left - right
    limit = scale_limit(apart)
    pooled, dimmed = shrink(to_bytes(apart, limit), dimmed_keys, middle=_MIDDLE)
    bits = divergence(left, right).mean(axis=-1)  # [rows, columns]
    summaries = [
        [
            f"{name}: rows differ by {bits[r, c]:.3f} bits on average. "
            f"{describe_difference(apart[r, c], query_tokens, key_tokens)}."
            for c, name in enumerate(line)
        ]
        for r, line in enumerate(names_of(apart.shape[0], apart.shape[1], how))
    ]
    header = {
        "label": label, "summaries": summaries, "limit": limit, "ends": list(ends),
        **attention_look(signed=True),
    }  # fmt: skip
    return make_sheet(pooled, dimmed, query_tokens, key_tokens, how, header)


def to_bytes(apart: Floats, limit: float) -> NDArray[np.uint8]:
    """Scale differences in [-limit, limit] to bytes in [0, 255]; zero becomes 128."""
    share = np.clip(apart.astype(np.float64) / limit, -1, 1)
    result: NDArray[np.uint8] = np.rint(127.5 * (share + 1)).astype(np.uint8)
    return result
