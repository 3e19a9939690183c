"""What can be taken away from the Attention page: each view as panels, arrays, page and program."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from figures.exhibit import Exhibit, Offline, Panel, file_stem
from transformer.measures.heads import kept_lines
from transformer.measures.words import WORD_RULE, Groups
from transformer.types import Floats
from ui.attention.choice import Choice, kinds_of, to_units
from ui.attention.maps import (
    Maps,
    dimmed,
    drawing_of,
    maps_of,
    name_of_map,
    selected_mass,
    sheet_of,
    shown_map,
    tab_of,
)
from ui.components.grid import Tab, still_grid
from ui.components.lens import still_lens
from ui.components.lines import Pin, still_lines
from ui.core.view import View
from ui.export.download import snippet_header, take_away
from ui.work.results import trace

#: Weights up to which a page holds a lens for every cell of the grid: 4 bytes each, and a third.
MOST_FOLLOWING = 1_000_000


def offer(view: View, choice: Choice, maps: Maps) -> None:
    """The button that takes the view away."""
    n_layers, n_heads, n, m = maps.weights.shape
    count = {"grid": n_layers * n_heads, "heads": len(choice.heads), "matrix": 1}[choice.display]
    if count:
        take_away(
            lambda: exhibit(view, choice), key="attention", name=stem(choice, maps),
            n_numbers=count * n * m,
        )  # fmt: skip


def stem(choice: Choice, maps: Maps) -> str:
    """The file's name: the kind, and which of its maps."""
    which = {
        "grid": "all heads",
        "heads": _so_many_lines(choice),
        "matrix": name_of_map(maps, choice),
    }[choice.display]
    return file_stem(maps.story.name, which, *(["words"] if choice.units == "words" else []))


def _so_many_lines(choice: Choice) -> str:
    n = len(choice.heads)
    return f"lines of {n} head{'' if n == 1 else 's'}"


def exhibit(view: View, choice: Choice) -> Exhibit:
    """The view as a figure. Needs no session."""
    found = trace(view.request)
    maps = maps_of(found, choice.kind, choice.units)
    make = {"grid": _grid, "heads": _lines, "matrix": _matrix}[choice.display]
    return make(view, choice, maps)


def _grid(view: View, choice: Choice, maps: Maps) -> Exhibit:
    n_layers, n_heads = maps.weights.shape[:2]
    heads = [(layer, head) for layer in range(n_layers) for head in range(n_heads)]
    return Exhibit(
        name=stem(choice, maps),
        title=f"{maps.story.name}: every layer and head",
        caption=_caption(choice, maps),
        parts=tuple(panel(maps, maps.weights[at], *at) for at in heads),
        arrays={"maps": maps.weights},
        snippet=_snippet(view, choice, maps),
        offline=_grid_pages(view, choice, maps),
        columns=n_heads,
    )


def _grid_pages(view: View, choice: Choice, maps: Maps) -> tuple[Offline, ...]:
    """Grid and lens without a server; with the tabs of all kinds where that is no large file."""
    found = trace(view.request)
    kinds = kinds_of(found)
    lens = still_lens(shown_map(maps, choice))
    if len(kinds) == 1 or sum(found.attention(kind).size for kind in kinds) > MOST_FOLLOWING:
        grid = still_grid(sheet_of(maps, choice), choice.cell)
        return Offline("grid", grid), Offline("lens", lens, lenses(maps, choice))
    tabs: dict[str, Tab] = {}
    follows: dict[str, bytes] = {}
    for kind in kinds:
        at, of_kind = replace(choice, kind=kind), maps_of(found, kind, choice.units)
        tabs[kind] = tab_of(found, kind, sheet_of(of_kind, at))
        follows |= lenses(of_kind, at, kind)
    title = f"Every kind of attention; the numbers below are of {maps.story.name.lower()}"
    return (
        Offline("grid", still_grid(tabs, choice.cell, choice.kind), title=title),
        Offline("lens", lens, follows),
    )


def lenses(maps: Maps, choice: Choice, *kind: str) -> dict[str, bytes]:
    """What the lens shows for each cell of the grid; nothing where that would be a large file.

    Args:
        kind: its name, where the grid has tabs.
    """
    n_layers, n_heads = maps.weights.shape[:2]
    if maps.weights.size > MOST_FOLLOWING:
        return {}
    lenses = {}
    for layer in [*range(n_layers), None]:
        for head in [*range(n_heads), None]:
            at = replace(choice, cell=(layer, head), chosen=False)
            held = json.dumps([layer, head, *kind], separators=(",", ":"))
            lenses[held] = still_lens(shown_map(maps, at))
    return lenses


def _lines(view: View, choice: Choice, maps: Maps) -> Exhibit:
    side, at = choice.pin or ("query", 0)
    groups = maps.query_groups if side == "query" else maps.key_groups
    pinned: Pin | None = (side, to_units((at,), groups)[0]) if choice.pin else None
    chosen = np.stack([maps.weights[head] for head in choice.heads])
    kept = kept_lines(chosen, choice.mass)
    kept[..., list(dimmed(maps, choice))] = False
    indices = ", ".join(str(head) for head in choice.heads)
    lines = (
        f"\nheads = [{indices}]  # (layer, head), from 0\n"
        "chosen = np.stack([maps[head] for head in heads])\n"
        "# The fewest keys of each query that hold the share `mass` of its weight.\n"
        f"mass = {choice.mass!r}\n"
        'order = np.argsort(-chosen, axis=-1, kind="stable")\n'
        "largest_first = np.take_along_axis(chosen, order, axis=-1).astype(np.float64)\n"
        "before = np.cumsum(largest_first, axis=-1) - largest_first\n"
        "wanted = mass * largest_first.sum(axis=-1, keepdims=True) - 1e-6\n"
        "kept = np.zeros(chosen.shape, dtype=bool)\n"
        "np.put_along_axis(kept, order, (before < wanted) & (largest_first > 0), axis=-1)\n"
        f"kept[..., {list(dimmed(maps, choice))!r}] = False  # dimmed tokens\n"
    )
    drawn = drawing_of(maps, choice)
    return Exhibit(
        name=stem(choice, maps),
        title=f"{maps.story.name}: {_so_many_lines(choice)}",
        caption=f"Weights that are no line, because the strongest {choice.mass:.0%} of each "
        f"query's weight go without them, are left at 0. {_caption(choice, maps)}",
        parts=tuple(
            panel(maps, np.where(kept[i], chosen[i], 0), *head)
            for i, head in enumerate(choice.heads)
        ),
        arrays={"chosen": chosen, "kept": kept},
        snippet=_snippet(view, choice, maps) + lines,
        offline=Offline("lines", still_lines(drawn, pinned)),
    )


def _matrix(view: View, choice: Choice, maps: Maps) -> Exhibit:
    shown = shown_map(maps, choice)
    layer, head = choice.cell
    axes = [axis for axis, index in enumerate((layer, head)) if index is None]
    picked = f"maps[{':' if layer is None else layer}, {':' if head is None else head}]"
    if choice.chosen:
        picked = f"np.stack([maps[head] for head in [{', '.join(map(str, choice.heads))}]])"
        axes = [0]
    many = tuple(range(len(axes)))
    made = f"\nweights = {picked}"
    if many and choice.how == "mean":
        made += f".mean(axis={many}, dtype=np.float64).astype(np.float32)"
    elif many:
        made += f".max(axis={many})"
    parts = [
        Panel(
            shown.name, shown.weights, tuple(maps.queries), tuple(maps.keys),
            f"query: {maps.story.queries}", f"key: {maps.story.keys}",
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
        rows = f"[..., {list(queries)!r}, :]" if queries else ""
        made += (
            "\n# Weight of every head on some keys, averaged over some queries.\n"
            f"mass = maps{rows}[..., {list(keys)!r}].astype(np.float64).sum(-1).mean(-1)"
        )
    return Exhibit(
        name=stem(choice, maps),
        title=f"{maps.story.name}: {shown.name[:1].lower()}{shown.name[1:]}",
        caption=_caption(choice, maps),
        parts=tuple(parts),
        arrays=arrays,
        snippet=_snippet(view, choice, maps) + made + "\n",
        offline=Offline("lens", still_lens(shown)),
    )


def panel(maps: Maps, weights: Floats, layer: int, head: int) -> Panel:
    """One head's map with its tokens."""
    return Panel(
        f"Layer {layer + 1}, head {head + 1}", weights, tuple(maps.queries), tuple(maps.keys),
        f"query: {maps.story.queries}", f"key: {maps.story.keys}",
    )  # fmt: skip


def _caption(choice: Choice, maps: Maps) -> str:
    words = f" {WORD_RULE}" if choice.units == "words" else ""
    masked = " Later keys are masked." if maps.causal else ""
    return f"Attention weights: rows are queries, columns are keys.{masked}{words}"


def _snippet(view: View, choice: Choice, maps: Maps) -> str:
    """The program up to `maps`, [layers, heads, queries, keys]."""
    lines = f"\nmaps = trace.attention({choice.kind!r})  # [layers, heads, queries, keys]\n"
    if choice.units == "words":
        lines += (
            "# Whole words: each list holds the first pieces of the words. Keys are summed,\n"
            "# queries are averaged.\n"
            f"queries, keys = {_starts(maps.query_groups)!r}, {_starts(maps.key_groups)!r}\n"
            "sizes = np.diff(queries, append=maps.shape[-2])[:, None]\n"
            "maps = np.add.reduceat(np.add.reduceat(maps, keys, -1), queries, -2) / sizes\n"
        )
    return snippet_header(view) + lines


def _starts(groups: Groups | None) -> list[int]:
    return [group[0] for group in groups or ()]
