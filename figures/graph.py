"""A tree as a part of an exhibit: a table of nodes, drawn as labels joined by lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import altair as alt

from figures.exhibit import Panel
from figures.labels import show_token
from figures.numbers import signed
from figures.palette import CHROME

_COLUMN, _ROW, _THIN = 86, 34, 17  # pixels per step, and per rank inside the beam and below it


@dataclass(frozen=True, eq=False)
class Graph(Panel):
    """A search tree: `values` has a row per node, `rows` the tokens, `columns` the quantities.

    Attributes:
        parents: [n] row of each node's parent, -1 for the root.
        lines: [n] 2 on the highlighted path, 1 on other paths that were followed, else 0.
        beam: ranks from 0 to beam - 1 are drawn tall.

    The columns "step" and "rank", both from 1, place a node; "log P" is written below its
    token.

    Raises: `ValueError` as for `Panel`, and if a node comes before its parent.
    """

    parents: tuple[int, ...] = ()
    lines: tuple[int, ...] = ()
    beam: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        n = len(self.rows)
        if (len(self.parents), len(self.lines)) != (n, n):
            raise ValueError(f"graph {self.title!r}: one parent and one line for each of {n} nodes")
        if not all(-1 <= parent < row for row, parent in enumerate(self.parents)):
            raise ValueError(f"graph {self.title!r}: a node comes before its parent")
        for name in ("step", "rank", "log P"):
            if name not in self.columns:
                raise ValueError(f"graph {self.title!r}: no column {name!r}")


def draw_graph(graph: Graph) -> alt.LayerChart | alt.FacetChart:
    """Draw the tree, steps from left to right and the best rank on top."""
    chrome = CHROME["light"]
    step, rank, total = (
        graph.values[:, graph.columns.index(name)].tolist() for name in ("step", "rank", "log P")
    )
    places = [_height(int(each) - 1, graph.beam) for each in rank]
    nodes: list[dict[str, Any]] = []
    for i, parent in enumerate(graph.parents):
        tall = rank[i] <= graph.beam
        nodes.append(
            {
                "x": step[i] * _COLUMN,
                "y": places[i],
                "edge": (step[i] * _COLUMN) - 8,
                "from_x": step[parent] * _COLUMN + 56 if parent >= 0 else _COLUMN - 30,
                "from_y": places[parent] if parent >= 0 else _height(0, graph.beam),
                "token": show_token(graph.rows[i], 9 if tall else 6),
                "number": signed(total[i]),
                "shade": (chrome.rule, chrome.muted, chrome.accent)[graph.lines[i]],
                "ink": chrome.ink if graph.lines[i] else chrome.muted,
                "thick": 2.5 if graph.lines[i] == 2 else 1.0,
                "below": places[i] + 12 if tall else places[i],
                "beside": step[i] * _COLUMN if tall else step[i] * _COLUMN + 36,
            }
        )
    width = (max(step, default=1) + 1) * _COLUMN
    height = max(places, default=0.0) + _ROW
    x, y = (
        alt.Scale(domain=[_COLUMN - 40, width], nice=False),
        alt.Scale(domain=[height, -_ROW / 2], nice=False),
    )
    base = alt.Chart(alt.InlineData(values=nodes))
    edges = base.mark_rule().encode(
        x=alt.X("from_x:Q", scale=x, axis=None),
        y=alt.Y("from_y:Q", scale=y, axis=None),
        x2="edge:Q",
        y2="y:Q",
        color=alt.Color("shade:N", scale=None, legend=None),
        strokeWidth=alt.StrokeWidth("thick:Q", scale=None, legend=None),
    )
    tokens = base.mark_text(align="left", fontSize=11).encode(
        x=alt.X("x:Q", scale=x, axis=None),
        y=alt.Y("y:Q", scale=y, axis=None),
        text="token:N",
        color=alt.Color("ink:N", scale=None, legend=None),
    )
    numbers = base.mark_text(align="left", fontSize=8.5, color=chrome.muted).encode(
        x=alt.X("beside:Q", scale=x, axis=None),
        y=alt.Y("below:Q", scale=y, axis=None),
        text="number:N",
    )
    return alt.layer(edges, tokens, numbers).properties(
        width=float(width - _COLUMN + 40), height=float(height + _ROW / 2)
    )


def _height(rank: int, beam: int) -> float:
    """Return the vertical offset of a rank in pixels."""
    return float(min(rank, beam) * _ROW + max(0, rank - beam) * _THIN)
