"""Downloads of the Attention page: every display as panels, arrays, HTML page and program."""

import json
from collections.abc import Callable
from dataclasses import fields, replace
from itertools import product
from typing import Any

import numpy as np

from figures.attention import is_share
from figures.exhibit import Exhibit, Offline, Panel, file_stem
from figures.labels import cell_noun, count
from transformer.measures.heads import PATTERNS, Head, How, kept_lines
from transformer.measures.registered import MEASURES, is_built_in
from transformer.measures.words import WORD_RULE, Units
from transformer.search.inputs import checked_number
from transformer.trace.records import Trace
from transformer.types import AttentionKind, Floats, InputError
from ui.attention.maps import (
    NAMES,
    AttentionChoice,
    Display,
    Maps,
    dimmed_columns,
    drawing_of,
    kinds_of,
    maps_of,
    name_of_map,
    selected_mass,
    sheet_of,
    shown_map,
    tab_of,
    to_units,
    values_of,
)
from ui.components.grid import Cell, Tab, grid_component
from ui.components.lens import Map
from ui.components.lines import Pin
from ui.export.programs import Source, facts_of

#: Up to this many weights (5.3 bytes each), an HTML page has a lens for every grid cell.
MOST_FOLLOWING = 1_000_000


def stem(choice: AttentionChoice, maps: Maps) -> str:
    """Return the file name stem: kind and maps."""
    lines, matrix = f"lines of {count(len(choice.heads), 'head')}", name_of_map(choice, maps.cells)
    names = {"grid": "all heads", "heads": lines, "matrix": matrix}
    words = ["words"] if choice.units == "words" else []
    measure = [maps.cells.measure] if maps.cells else []
    return file_stem(maps.kind_text.name, names[choice.display], *measure, *words)


def attention(
    trace: Trace, kind: AttentionKind = "cross", layer: int | None = None, head: int | None = None,
    *, display: Display = "matrix", units: Units = "tokens", how: How = "mean", dim: bool = False,
    chosen: bool = False, heads: tuple[Head, ...] = (), mass: float = 0.75, pin: Pin | None = None,
    queries: tuple[int, ...] = (), keys: tuple[int, ...] = (),
) -> Exhibit:  # fmt: skip
    """Return maps of one kind of attention as a figure.

    Args:
        layer, head: from 0, of the matrix; None combines all of them by `how`.
        display: "matrix", "grid" of every layer and head, or "heads" as lines.
        units: "tokens" or "words".
        dim: cover special tokens.
        chosen: combine `heads` in the matrix instead of `layer` and `head`.
        heads: (layer, head) from 0.
        mass: share of a query's weight that its lines hold.
        pin: marked token, ("query", position) or ("key", position).
        queries, keys: positions whose weight is summed for every head.

    Raises: `InputError` for a bad mass, or lines of no heads.
    """
    checked_number("mass", mass, 1)
    if display == "heads" and not heads:
        raise InputError("display 'heads' draws no heads; choose some, such as heads=((0, 1),)")
    cell = (layer, head)
    return _exhibit(trace, AttentionChoice(
        kind, display, units, how, dim, cell, chosen, heads, mass, pin, queries, keys
    ))  # fmt: skip


def found_heads(
    trace: Trace, find: str = "previous", kind: AttentionKind = "cross", *, units: Units = "tokens",
    queries: tuple[int, ...] = (), keys: tuple[int, ...] = (),
) -> Exhibit:  # fmt: skip
    """Return every head's share of a pattern, or its value of a measure, as a figure.

    Args:
        find: a pattern, such as "previous", or a measure name (`register_measure`).
        units: "tokens" or "words".
        queries, keys: positions of the tokens in the pattern "pair".

    Raises: `InputError` for an unknown name, a pattern that no row has, or a measure that fails.
    """
    maps = maps_of(trace, kind, units)
    values = values_of(maps, kind, find, queries, keys)
    if values is None:
        raise InputError(f"no row of {kind} has the pattern {find!r}")
    share, weight = is_share(values), find in PATTERNS
    title = f"Weight on {NAMES[find].replace('`', '')}" if weight else find  # type: ignore[index]
    caption = "Weight on these keys, averaged over the rows that have one."
    if not weight:
        whose = "" if is_built_in(find) else " from outside Headlight"
        caption = f"A measure{whose}, for every head."
    part = Panel.of_heads(title, values, *(() if share else ("diverging", find)))
    return Exhibit(
        name=file_stem(maps.kind_text.name, find), title=f"{maps.kind_text.name}: {title.lower()}",
        caption=caption, parts=(part,), arrays={"values": values},
        facts=facts_of(trace, "every head"),
    )  # fmt: skip


def found_exhibit(trace: Trace, source: Source, find: str, **choice: Any) -> Exhibit:
    """Return `found_heads` with its source; its program imports a measure's module."""
    made = source.of(found_heads, trace, find=find, **choice)
    if find in PATTERNS or is_built_in(find):
        return made
    return replace(made, snippet=f"import {MEASURES[find].__module__}\n{made.snippet}")


def attention_exhibit(trace: Trace, choice: AttentionChoice, source: Source) -> Exhibit:
    """Return the chosen display of one kind of attention as a figure."""
    arguments = {field.name: getattr(choice, field.name) for field in fields(choice)}
    layer, head = arguments.pop("cell")
    return source.figure(_exhibit(trace, choice), attention, **arguments, layer=layer, head=head)


def _exhibit(trace: Trace, choice: AttentionChoice) -> Exhibit:
    maps = maps_of(trace, choice.kind, choice.units)
    if choice.display != "matrix" and maps.cells is not None and maps.cells.signed:
        raise InputError("an effect is measured for one map at a time; expected display='matrix'")
    if choice.display == "grid":
        return _grid(trace, choice, maps)
    made = {"heads": _lines, "matrix": _matrix}[choice.display](choice, maps)
    heads = "; ".join(f"layer {layer + 1}, head {head + 1}" for layer, head in choice.heads)
    name = name_of_map(choice, maps.cells)
    where = heads if choice.display == "heads" else f"{name[:1].lower()}{name[1:]}"
    return replace(made, facts=facts_of(trace, where))


def _grid(trace: Trace, choice: AttentionChoice, maps: Maps) -> Exhibit:
    n_layers, n_heads = maps.weights.shape[:2]
    where = "all layers and heads, named layer.head where space is short"
    return Exhibit(
        name=stem(choice, maps),
        title=f"{maps.kind_text.name}: every layer and head",
        caption=_caption(choice, maps),
        parts=tuple(panel(maps, maps.weights[at], *at) for at in np.ndindex(n_layers, n_heads)),
        arrays={"maps": maps.weights},
        facts=facts_of(trace, where),
        offline=_grid_pages(trace, choice, maps),
        columns=n_heads,
    )


def _grid_pages(trace: Trace, choice: AttentionChoice, maps: Maps) -> tuple[Offline, ...]:
    """Return the offline grid and lens, with a tab per kind unless the file would be large."""
    kinds = kinds_of(trace)
    lens = shown_map(maps, choice).lens()
    if len(kinds) == 1 or sum(trace.attention(kind).size for kind in kinds) > MOST_FOLLOWING:
        grid = grid_component(sheet_of(maps, choice), choice.cell)
        return grid.offline(), lens.offline(lenses(maps, choice))
    tabs: dict[str, Tab] = {}
    follows: dict[str, bytes] = {}
    for kind in kinds:
        at, of_kind = replace(choice, kind=kind), maps_of(trace, kind, choice.units)
        tabs[kind] = tab_of(trace, kind, sheet_of(of_kind, at))
        follows |= lenses(of_kind, at, kind)
    title = f"All kinds of attention; the numbers below are for {maps.kind_text.name.lower()}"
    grid = grid_component(tabs, choice.cell, choice.kind)
    return grid.offline(title=title), lens.offline(follows)


def lenses(maps: Maps, choice: AttentionChoice, *kind: str) -> dict[str, bytes]:
    """Return lens messages by grid cell. Args: kind: name of the kind, if the grid has tabs."""
    alone = replace(choice, chosen=False)
    return messages(maps.weights, lambda cell: shown_map(maps, replace(alone, cell=cell)), *kind)


def messages(weights: Floats, draw: Callable[[Cell], Map], *kind: str) -> dict[str, bytes]:
    """Return messages of the maps [L, H, n, m] and their combinations, or {} if they are large."""
    layers, heads = ((*range(count), None) for count in weights.shape[:2])
    return {} if weights.size > MOST_FOLLOWING else {
        json.dumps([*cell, *kind], separators=(",", ":")): draw(cell).lens().message()
        for cell in product(layers, heads)
    }  # fmt: skip


def _lines(choice: AttentionChoice, maps: Maps) -> Exhibit:
    side, at = choice.pin or ("query", 0)
    groups = maps.query_groups if side == "query" else maps.key_groups
    pinned: Pin | None = (side, to_units((at,), groups)[0]) if choice.pin else None
    drawn = np.stack([maps.weights[head] for head in choice.heads])
    kept = kept_lines(drawn, choice.mass)
    kept[..., list(dimmed_columns(maps, choice))] = False
    return Exhibit(
        name=stem(choice, maps),
        title=f"{maps.kind_text.name}: lines of {count(len(choice.heads), 'head')}",
        caption=f"Only the strongest weights, which together hold {choice.mass:.0%} of each "
        f"query's attention, are drawn as lines; the others are set to 0. "
        f"{_caption(choice, maps)}",
        parts=tuple(
            panel(maps, np.where(kept[i], drawn[i], 0), *head)
            for i, head in enumerate(choice.heads)
        ),
        arrays={"chosen": drawn, "kept": kept},
        offline=drawing_of(maps, choice).component(pinned).offline(),
    )


def _matrix(choice: AttentionChoice, maps: Maps) -> Exhibit:
    shown = shown_map(maps, choice)
    parts = [shown.panel()]
    arrays = {"weights": shown.weights}
    if choice.keys and shown.signed is None:
        arrays["mass"] = selected_mass(maps, choice)
        parts.append(Panel.of_heads("Weight on the chosen keys", arrays["mass"]))
    return Exhibit(
        name=stem(choice, maps),
        title=f"{maps.kind_text.name}: {shown.name[:1].lower()}{shown.name[1:]}",
        caption=_caption(choice, maps),
        parts=tuple(parts),
        arrays=arrays,
        offline=shown.lens().offline(),
    )


def panel(maps: Maps, weights: Floats, layer: int, head: int) -> Panel:
    """Return one head's map with its tokens."""
    return Panel(
        f"Layer {layer + 1}, head {head + 1}", weights, tuple(maps.queries), tuple(maps.keys),
        f"query: {maps.kind_text.queries}", f"key: {maps.kind_text.keys}",
        quantity=cell_noun(maps.cells), short=f"{layer + 1}.{head + 1}",
    )  # fmt: skip


def _caption(choice: AttentionChoice, maps: Maps) -> str:
    words = f" {WORD_RULE}" if choice.units == "words" else ""
    masked = " Later keys are masked." if maps.causal else ""
    noun = cell_noun(maps.cells) or "attention weights"
    noun = f"{noun[:1].upper()}{noun[1:]}"
    return f"{noun}: rows are queries, columns are keys.{masked}{words}"
