"""Head roles: a table of every kind of attention, and a head's score against simple rules."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import altair as alt

from figures.charts import Drawn, bars, either, points, quiet, tips
from figures.labels import KIND_NAMES
from figures.palette import CHROME, Theme, ink_on, shade
from figures.removals import selection_of
from transformer.types import AttentionKind

#: Table width with a word in each cell or a number alone, and cell height, in px.
_ROOMS, _HEIGHT = (640, 320), 23

#: Kind, layer and head, from 0.
Place = TypeVar("Place", bound=tuple[AttentionKind, int, int])


class Cell(NamedTuple):
    """One head in a table."""

    light: float  # 0 to 1, below 0 means unlit; for a change -1 to 1
    word: str  # the role
    number: str  # beside the word
    about: str  # tooltip
    quiet: bool = False  # muted text
    change: bool = False  # blue or orange


def head_roles(cells: Mapping[Place, Cell], chosen: Place, theme: Theme) -> Drawn:
    """Draw a table for each kind of attention, layers by heads; a click selects a head.

    Args: chosen: the outlined head.
    """
    chrome, alone, tables = CHROME[theme], not any(cell.number for cell in cells.values()), []
    for kind in KIND_NAMES:
        rows = []
        for place, cell in cells.items():
            if place[0] == kind:
                behind = shade(cell.light, theme, cell.change)
                rows.append({
                    "kind": kind, "layer": place[1] + 1, "number": place[2] + 1,
                    "behind": behind, "ink": chrome.muted if cell.quiet else ink_on(behind),
                    "word": cell.word, "share": cell.number, "about": cell.about,
                    "chosen": place == chosen,
                })  # fmt: skip
        if not rows:
            continue
        rows.sort(key=lambda row: bool(row["chosen"]))  # its frame covers the others
        _, layer, last = max(place for place in cells if place[0] == kind)
        width = _ROOMS[alone] // (last + 1)
        picked = alt.selection_point(
            name=selection_of(kind), fields=["kind", "layer", "number"], empty=False
        )
        head = "head" if kind == next(iter(cells))[0] else None
        axis: dict[str, Any] = {"ticks": False, "domain": False, "labelAngle": 0}
        base = points(rows).encode(
            x=alt.X("number:O", title=head, axis=alt.Axis(orient="top", **axis)),
            y=alt.Y("layer:O", title="layer", axis=alt.Axis(**axis), sort="ascending"),
        )
        inks = [chrome.accent, chrome.rule]
        squares = base.mark_rect(cursor="pointer").encode(
            color=alt.Color("behind:N", scale=None, legend=None),
            stroke=alt.StrokeValue(**either("datum.chosen", *inks)),
            strokeWidth=alt.StrokeWidthValue(**either("datum.chosen", 3, 1)),
            tooltip=tips("layer:O", ("number:O", "", "head"), ("about:N", "", "role")),
        )
        text = base.encode(color=alt.Color("ink:N", scale=None, legend=None))
        left: dict[str, Any] = {} if alone else {"align": "left", "dx": 4 - width / 2}
        word = text.mark_text(fontSize=12, limit=width - 8, **left)
        share = text.mark_text(fontSize=12, align="right", dx=width / 2 - 4)
        tables.append(
            alt.layer(
                squares.add_params(picked), word.encode(text="word:N"), share.encode(text="share:N")
            ).properties(
                title=alt.TitleParams(KIND_NAMES[kind], anchor="start"),
                width=width * (last + 1), height=_HEIGHT * (layer + 1),
            )
        )  # fmt: skip
    joined: Any = alt.vconcat(*tables, spacing=10)
    return quiet(joined, theme)


def against_rules(scores: Mapping[str, float], theme: Theme) -> Drawn:
    """Draw a head's share, first, and those of simple rules as bars."""
    scale, height = alt.Scale(domain=[0, 1.9]), 24 * len(scores)
    return bars(
        scores, None, theme, marked=[*scores][:1], written=".1%", height=height, axis=None,
        scale=scale,
    )  # fmt: skip
