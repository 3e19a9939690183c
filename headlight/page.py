"""A whole trace as one page: the player, and every kind of attention, layer and head in it."""

from dataclasses import replace

import numpy as np

from figures.exhibit import Exhibit, Offline, Panel, file_stem
from figures.labels import cell_noun
from transformer.trace.records import Trace
from ui.attention.exhibits import MOST_FOLLOWING, lenses, panel
from ui.attention.maps import AttentionChoice, Maps, kinds_of, maps_of, sheet_of, shown_map
from ui.components.grid import grid_component
from ui.components.player import PlayerPlace, player_component
from ui.translate.exhibits import why_no_player


def trace_exhibit(trace: Trace, name: str, snippet: str = "") -> Exhibit:
    """Return the trace as a figure for `ui.export.html`: views of all its kinds, and its numbers.

    Args:
        name: the trace's origin, such as a file name.
        snippet: a program that makes `trace`, if there is one.
    """
    views: list[Offline] = []
    parts: list[Panel] = []
    large = False
    if {"decoder_self", "cross"} <= set(kinds_of(trace)) and why_no_player(trace) is None:
        player = player_component(trace, PlayerPlace(1), steerable=False, origin="As recorded")
        views.append(player.offline())
    for kind in kinds_of(trace):
        maps = maps_of(trace, kind, "tokens")
        choice = AttentionChoice(kind, "grid")
        if maps.cells is not None and maps.cells.signed:
            assert maps.wide is not None
            for at in np.argwhere(maps.wide.any((2, 3))).tolist():  # the places that were measured
                layer, head = (
                    None if index == size - 1 else index
                    for index, size in zip(at, maps.wide.shape, strict=False)
                )
                shown = shown_map(maps, replace(choice, cell=(layer, head)))
                views.append(shown.lens().offline(title=f"{maps.kind_text.name}: {shown.name}"))
                parts.append(_named(shown.panel(), maps))
            continue
        large = large or maps.weights.size > MOST_FOLLOWING
        views += [
            grid_component(sheet_of(maps, choice), choice.cell).offline(title=_title(maps)),
            shown_map(maps, choice).lens().offline(lenses(maps, choice)),
        ]
        heads = np.ndindex(maps.weights.shape[:2])
        parts += [_named(panel(maps, maps.weights[at], *at), maps) for at in heads]
    text = f"{trace.text} - " if trace.text and trace.text != trace.source else ""
    noun = cell_noun(trace.cells)
    mean = (
        " With so many weights, the large maps show the mean over all heads only." if large else ""
    )
    caption = (
        f"{text}From {name}. Rows are queries, columns are keys"
        f"{', a cell is the ' + noun if noun else '; rows sum to 1'}. Click a small map to enlarge "
        f"it.{mean} Attention is not by itself an explanation."
    )
    return Exhibit(
        name=file_stem(name),
        title=trace.source or name,
        caption=caption,
        parts=tuple(parts),
        snippet=snippet,
        offline=tuple(views),
    )


def _title(maps: Maps) -> str:
    layers, heads, queries, keys = maps.weights.shape
    size = f"{layers} layer{'s' * (layers != 1)}, {heads} head{'s' * (heads != 1)}"
    return f"{maps.kind_text.name}: {size}, {queries} queries, {keys} keys"


def _named(part: Panel, maps: Maps) -> Panel:
    title = f"{maps.kind_text.name}: {part.title[:1].lower()}{part.title[1:]}"
    return replace(part, title=title, short="")
