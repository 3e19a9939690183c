"""The Attention page's downloads: each display as panels, arrays, HTML page and program."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from figures.exhibit import Exhibit, Offline, Panel, file_stem
from transformer.measures.heads import kept_lines
from transformer.measures.words import WORD_RULE
from transformer.trace.records import Trace
from transformer.types import Floats
from ui.attention.maps import (
    AttentionChoice,
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
)
from ui.components.grid import Tab, grid_component
from ui.components.lines import Pin
from ui.export.programs import Source, header

#: An HTML page holds a lens for every cell of the grid up to this many weights (5.3 bytes each).
MOST_FOLLOWING = 1_000_000


def stem(choice: AttentionChoice, maps: Maps) -> str:
    """Return the file name's stem: the kind and which of its maps."""
    which = {
        "grid": "all heads",
        "heads": _lines_name(choice),
        "matrix": name_of_map(maps, choice),
    }[choice.display]
    return file_stem(maps.kind_text.name, which, *(["words"] if choice.units == "words" else []))


def _lines_name(choice: AttentionChoice) -> str:
    n = len(choice.heads)
    return f"lines of {n} head{'' if n == 1 else 's'}"


def attention_exhibit(trace: Trace, choice: AttentionChoice, source: Source) -> Exhibit:
    """Return the chosen display of one kind of attention as a figure."""
    maps = maps_of(trace, choice.kind, choice.units)
    if choice.display == "grid":
        return _grid(trace, choice, maps, source)
    made = {"heads": _lines, "matrix": _matrix}[choice.display](choice, maps, source)
    heads = "; ".join(f"layer {layer + 1}, head {head + 1}" for layer, head in choice.heads)
    name = name_of_map(maps, choice)
    where = heads if choice.display == "heads" else f"{name[:1].lower()}{name[1:]}"
    return replace(made, facts=source.facts(where, trace.source))


def _grid(trace: Trace, choice: AttentionChoice, maps: Maps, source: Source) -> Exhibit:
    n_layers, n_heads = maps.weights.shape[:2]
    heads = [(layer, head) for layer in range(n_layers) for head in range(n_heads)]
    return Exhibit(
        name=stem(choice, maps),
        title=f"{maps.kind_text.name}: every layer and head",
        caption=_caption(choice, maps),
        parts=tuple(panel(maps, maps.weights[at], *at) for at in heads),
        arrays={"maps": maps.weights},
        snippet=_program(source, choice),
        facts=source.facts(
            "all layers and heads, named layer.head where space is short", trace.source
        ),
        offline=_grid_pages(trace, choice, maps),
        columns=n_heads,
    )


def _grid_pages(trace: Trace, choice: AttentionChoice, maps: Maps) -> tuple[Offline, ...]:
    """Return the offline grid and lens, with a tab for each kind unless the file would be large."""
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
    """Return the lens for each cell of the grid; empty if the file would be too large.

    Args:
        kind: the kind's name, if the grid has tabs.
    """
    n_layers, n_heads = maps.weights.shape[:2]
    if maps.weights.size > MOST_FOLLOWING:
        return {}
    lenses = {}
    for layer in [*range(n_layers), None]:
        for head in [*range(n_heads), None]:
            at = replace(choice, cell=(layer, head), chosen=False)
            cell = json.dumps([layer, head, *kind], separators=(",", ":"))
            lenses[cell] = shown_map(maps, at).lens().message()
    return lenses


def _lines(choice: AttentionChoice, maps: Maps, source: Source) -> Exhibit:
    side, at = choice.pin or ("query", 0)
    groups = maps.query_groups if side == "query" else maps.key_groups
    pinned: Pin | None = (side, to_units((at,), groups)[0]) if choice.pin else None
    chosen = np.stack([maps.weights[head] for head in choice.heads])
    kept = kept_lines(chosen, choice.mass)
    covered = list(dimmed_columns(maps, choice))
    kept[..., covered] = False
    program = (
        f"heads = [{', '.join(map(str, choice.heads))}]  # (layer, head), from 0\n"
        "chosen = np.stack([maps[head] for head in heads])\n"
        "# For each query, the fewest keys that hold this share of its weight.\n"
        f"kept = kept_lines(chosen, {choice.mass!r})\n"
    )
    if covered:
        program += f"kept[..., {covered!r}] = False  # dimmed tokens\n"
    drawn = drawing_of(maps, choice)
    return Exhibit(
        name=stem(choice, maps),
        title=f"{maps.kind_text.name}: {_lines_name(choice)}",
        caption=f"Only the strongest weights, which together hold {choice.mass:.0%} of each "
        f"query's attention, are drawn as lines; the others are set to 0. "
        f"{_caption(choice, maps)}",
        parts=tuple(
            panel(maps, np.where(kept[i], chosen[i], 0), *head)
            for i, head in enumerate(choice.heads)
        ),
        arrays={"chosen": chosen, "kept": kept},
        snippet=_program(source, choice, "kept_lines") + program,
        offline=drawn.component(pinned).offline(),
    )


def _matrix(choice: AttentionChoice, maps: Maps, source: Source) -> Exhibit:
    shown = shown_map(maps, choice)
    measure, program = combining_call(choice)
    measures = [measure]
    program = f"weights = {program}\n"
    parts = [
        Panel(
            shown.name, shown.weights, tuple(maps.queries), tuple(maps.keys),
            f"query: {maps.kind_text.queries}", f"key: {maps.kind_text.keys}",
        )
    ]  # fmt: skip
    arrays = {"weights": shown.weights}
    queries, keys = (
        to_units(choice.queries, maps.query_groups),
        to_units(choice.keys, maps.key_groups),
    )
    if keys:
        n_layers, n_heads = maps.weights.shape[:2]
        arrays["mass"] = mass = selected_mass(maps, choice)
        parts.append(
            Panel(
                "Weight on the chosen keys", mass,
                tuple(f"layer {i + 1}" for i in range(n_layers)),
                tuple(f"head {i + 1}" for i in range(n_heads)),
            )
        )  # fmt: skip
        measures.append("mass_by_head")
        program += (
            "# Each head's weight on the chosen keys, averaged over the chosen queries.\n"
            f"mass = mass_by_head(maps, {list(queries)!r}, {list(keys)!r}).astype(np.float32)\n"
        )
    return Exhibit(
        name=stem(choice, maps),
        title=f"{maps.kind_text.name}: {shown.name[:1].lower()}{shown.name[1:]}",
        caption=_caption(choice, maps),
        parts=tuple(parts),
        arrays=arrays,
        snippet=_program(source, choice, *measures) + program,
        offline=shown.lens().offline(),
    )


def panel(maps: Maps, weights: Floats, layer: int, head: int) -> Panel:
    """Return one head's map with its tokens."""
    return Panel(
        f"Layer {layer + 1}, head {head + 1}", weights, tuple(maps.queries), tuple(maps.keys),
        f"query: {maps.kind_text.queries}", f"key: {maps.kind_text.keys}",
        short=f"{layer + 1}.{head + 1}",
    )  # fmt: skip


def _caption(choice: AttentionChoice, maps: Maps) -> str:
    words = f" {WORD_RULE}" if choice.units == "words" else ""
    masked = " Later keys are masked." if maps.causal else ""
    return f"Attention weights: rows are queries, columns are keys.{masked}{words}"


def _program(source: Source, choice: AttentionChoice, *measures: str) -> str:
    """Return the start of the program, up to `maps` [layers, heads, queries, keys].

    Args:
        measures: names to import from `transformer.measures.heads`.
    """
    imports = []
    if measures:
        imports.append(f"from transformer.measures.heads import {', '.join(sorted(measures))}")
    maps = f"trace.attention({choice.kind!r})"
    if choice.units == "words":
        imports.append("from transformer.measures.words import maps_by_words")
        maps = f"maps_by_words(trace, {choice.kind!r}).weights"
    return f"{header(source, *imports)}\nmaps = {maps}  # [layers, heads, queries, keys]\n"


def combining_call(choice: AttentionChoice, maps: str = "maps") -> tuple[str, str]:
    """Return the name of the function that combines `maps` into the map shown, and the call."""
    if choice.chosen:
        heads = f"[{', '.join(map(str, choice.heads))}]"
        return "combine_chosen", f"combine_chosen({maps}, {heads}, {choice.how!r})"
    layer, head = choice.cell
    return "combine", f"combine({maps}, {choice.how!r}, layer={layer}, head={head})"
