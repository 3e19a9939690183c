"""Charts of what heads do: a table of every kind of attention, and roles through training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import altair as alt
import numpy as np

from figures.charts import Drawn, either, points, quiet, tips
from figures.labels import KIND_NAMES
from figures.palette import CHROME, Theme, as_altair, attention_table, contrast, weight_levels
from figures.removals import selection_of
from transformer.types import AttentionKind

#: Widths of the tables and of their cells, px.
_ROOM, _WIDEST, _HEIGHT = 840, 120, 36

_DARK_INK, _LIGHT_INK = "#000000", "#ffffff"


class Cell(NamedTuple):
    """One head in a table."""

    light: float  # 0 to 1
    word: str  # what it does
    number: str  # below the word
    about: str  # on hover
    quiet: bool = False  # whether the word is written in muted ink


def head_roles(
    cells: Mapping[AttentionKind, Sequence[Sequence[Cell]]],
    chosen: tuple[AttentionKind, int, int] | None,
    theme: Theme,
) -> Drawn:
    """Draw a table for each kind of attention, layers by heads; a click selects a head.

    Args: cells: [L][H] by kind.  chosen: the head that is outlined.
    """
    chrome, colours = CHROME[theme], as_altair(attention_table(theme), 256)
    tables = []
    for kind, lines in cells.items():
        width = min(_WIDEST, _ROOM // len(lines[0]))
        rows = []
        for layer, line in enumerate(lines, 1):
            for number, cell in enumerate(line, 1):
                behind = colours[weight_levels(np.array(cell.light))]
                dark = contrast(_DARK_INK, behind) >= contrast(_LIGHT_INK, behind)
                rows.append({
                    "kind": kind, "layer": layer, "number": number, "behind": behind,
                    "word": cell.word, "share": cell.number, "about": cell.about,
                    "ink": chrome.muted if cell.quiet else _DARK_INK if dark else _LIGHT_INK,
                    "chosen": (kind, layer - 1, number - 1) == chosen,
                })  # fmt: skip
        picked = alt.selection_point(
            name=selection_of(kind), fields=["kind", "layer", "number"], empty=False
        )
        axis: dict[str, Any] = {"ticks": False, "domain": False, "labelAngle": 0}
        base = points(rows).encode(
            x=alt.X("number:O", title=None, axis=alt.Axis(orient="top", **axis)),
            y=alt.Y("layer:O", title=None, axis=alt.Axis(**axis), sort="ascending"),
        )
        inks = [chrome.accent, chrome.rule]
        squares = base.mark_rect(cursor="pointer").encode(
            color=alt.Color("behind:N", scale=None, legend=None),
            stroke=alt.StrokeValue(**either("datum.chosen", *inks)),
            strokeWidth=alt.StrokeWidthValue(**either("datum.chosen", 3, 1)),
            tooltip=tips("layer:O", ("number:O", "", "head"), ("about:N", "", "role")),
        )
        ink = alt.Color("ink:N", scale=None, legend=None)
        words, shares = (
            base.mark_text(fontSize=size, dy=dy, limit=width - 8).encode(
                text=alt.Text(f"{name}:N"), color=ink
            )
            for name, size, dy in (("word", 13, -6), ("share", 12, 9))
        )
        tables.append(
            alt.layer(squares.add_params(picked), words, shares).properties(
                title=alt.TitleParams(f"{KIND_NAMES[kind]}: layers and heads", anchor="start"),
                width=width * len(lines[0]), height=_HEIGHT * len(lines),
            )
        )  # fmt: skip
    joined: Any = alt.vconcat(*tables, spacing=14)
    return quiet(joined, theme)
