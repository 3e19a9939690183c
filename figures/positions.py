"""Figures of positional encodings (section 3.5): the table, its curves, its products.

Positions are numbered as in the formula: the first token has pos 0. Values lie in -1..1 and take
the diverging scale; 0 has the colour of the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import altair as alt
import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from figures.attention import plotly_cells, style
from figures.charts import FONT, Drawn, coloured, points, quiet, tips
from figures.labels import escape_plotly
from figures.palette import CHROME, Theme, as_plotly, categorical, signed_table
from transformer.types import Floats


def product_by_offset(
    offsets: NDArray[np.int64], values: Floats, starts: Sequence[int], theme: Theme
) -> Drawn:
    """Draw dot products by offset k, from several starts: the curves coincide.

    Args: offsets: [n].  values: [n, P], PE(start) · PE(start + k).  starts: [P].
    """
    if values.shape != (len(offsets), len(starts)):
        raise ValueError(f"values of shape {values.shape} for {len(offsets)} x {len(starts)}")
    rows = [
        {"k": int(k), "product": float(values[i, j]), "from pos": f"pos {start}"}
        for j, start in enumerate(starts)
        for i, k in enumerate(offsets)
    ]
    names = [f"pos {start}" for start in starts]
    colours = categorical(len(names), theme)
    lines = [
        points([row for row in rows if row["from pos"] == name])
        # Wide lines below narrow ones, so that equal curves all stay visible.
        .mark_line(strokeWidth=2 + 4 * (len(names) - 1 - i), strokeCap="round")
        .encode(
            x=alt.X("k:Q", title="offset k"),
            y=alt.Y("product:Q", title="PE(pos) · PE(pos + k)"),
            color=coloured("from pos:N", names, colours, title="measured from", orient="top",
                           symbolStrokeWidth=4),
            tooltip=tips("from pos:N", "k:Q", ("product:Q", ".3f")),
        )
        for i, name in enumerate(names)
    ]  # fmt: skip
    return quiet(alt.layer(*lines), theme, height=280)


def clocks(
    before: Floats, after: Floats, expected: Floats, names: Sequence[str], theme: Theme
) -> Drawn:
    """Draw each (sin, cos) pair as the hand of a clock, before and after its rotation.

    Sine points up and cosine right, so a hand stands at the angle pos w_i.

    Args:
        before: [P, 2], the pairs of PE(pos), sine first.  after: [P, 2], the same rotated by M_k.
        expected: [P, 2], the pairs of PE(pos + k).  names: [P].
    """
    for pairs in (before, after, expected):
        if pairs.shape != (len(names), 2):
            raise ValueError(f"pairs of shape {pairs.shape}; expected ({len(names)}, 2)")
    rows: list[dict[str, object]] = []
    for i, name in enumerate(names):
        for what, (sine, cosine) in (
            ("PE(pos)", before[i]),
            ("turned by k", after[i]),
            ("PE(pos + k)", expected[i]),
        ):
            place = {"pair": name, "what": what, "x": float(cosine), "y": float(sine)}
            rows.append(place | {"x0": 0.0, "y0": 0.0})
    chrome = CHROME[theme]
    circle = [
        {"cx": float(np.cos(a)), "cy": float(np.sin(a)), "i": i}
        for i, a in enumerate(np.linspace(0, 2 * np.pi, 61))
    ]
    scale = alt.Scale(domain=[-1.15, 1.15])
    x, y = (partial(channel, scale=scale, axis=None) for channel in (alt.X, alt.Y))
    rim = points(circle).mark_line(color=chrome.muted, opacity=0.5, strokeWidth=1).encode(
        x=x("cx:Q"), y=y("cy:Q"), order=alt.Order("i:O")
    )  # fmt: skip
    colour = coloured(
        "what:N", ["PE(pos)", "turned by k", "PE(pos + k)"],
        [chrome.muted, *categorical(2, theme)], orient="top", symbolStrokeWidth=3,
    )  # fmt: skip
    hands = alt.Chart().mark_rule(strokeWidth=3, strokeCap="round").encode(
        x=x("x0:Q"), y=y("y0:Q"), x2=alt.X2("x:Q"), y2=alt.Y2("y:Q"), color=colour
    ).transform_filter("datum.what != 'PE(pos + k)'")  # fmt: skip
    goal = alt.Chart().mark_point(size=110, strokeWidth=3, filled=False).encode(
        x=x("x:Q"), y=y("y:Q"), color=colour,
        tooltip=tips("pair:N", ("y:Q", ".4f", "sin"), ("x:Q", ".4f", "cos")),
    ).transform_filter("datum.what == 'PE(pos + k)'")  # fmt: skip
    layers = alt.layer(rim, hands, goal, data=alt.InlineData(values=rows))
    header = alt.Header(labelColor=chrome.ink, labelFontSize=13, labelFont=FONT)
    facets = layers.properties(width=92, height=92).facet(
        facet=alt.Facet("pair:N", sort=list(names), title=None, header=header),
        columns=len(names),
        spacing=14,
    )
    return quiet(facets, theme)


_MOST_MARKERS = 64  # each position gets a dot up to this many


def encoding_heatmap(
    table: Floats, theme: Theme, *, trained: int | None = None, limit: float | None = None,
    height: int = 420,
) -> go.Figure:  # fmt: skip
    """Draw the encoding: positions 0, 1, ... are rows, dimensions are columns.

    Args:
        table: [n, d], float32.
        trained: number of positions seen in training; a line is drawn below the last of them.
        limit: end of the scale; default the largest absolute value, but at least 1.

    Returns: a figure whose first trace is the heatmap, `z` equal to `table`.
    """
    digits = ".4f" if limit is None else ".3g"
    if limit is None:
        limit = max(1.0, float(np.abs(table).max())) if table.size else 1.0
    hover = f"pos %{{y}}, dimension %{{x}}<br>value %{{z:{digits}}}"
    figure = go.Figure(_signed_cells(table, limit, theme, hover=hover, title="value"))
    style(figure, theme, height=height)
    figure.update_xaxes(title_text="dimension of the encoding")
    figure.update_yaxes(title_text="position pos", autorange="reversed")
    if trained is not None and trained < len(table):
        _training_ends(figure, trained, theme, horizontal=True)
    return figure


def curves(
    positions: NDArray[np.int64],
    values: Floats,
    names: Sequence[str],
    theme: Theme,
    *,
    trained: int | None = None,
) -> go.Figure:
    """Draw one line per dimension along the positions; those beyond training are shaded.

    Args: positions: [n].  values: [n, D], one column per line.  names: [D].

    Returns: a figure with D line traces.
    """
    if values.shape != (len(positions), len(names)):
        raise ValueError(
            f"values of shape {values.shape} for {len(positions)} positions and {len(names)} lines"
        )
    figure = go.Figure()
    mode = "lines+markers" if len(positions) <= _MOST_MARKERS else "lines"
    colours = categorical(len(names), theme)
    for line, name, colour in zip(values.astype(np.float32).T, names, colours, strict=True):
        figure.add_scatter(
            x=positions, y=line, name=escape_plotly(name), mode=mode, marker={"size": 5},
            line={"color": colour, "width": 2.5}, hovertemplate="%{y:.4f}",
        )  # fmt: skip
    style(figure, theme, height=340)
    figure.update_layout(
        hovermode="x unified",
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.02, "x": 0},
        showlegend=True,
    )
    figure.update_xaxes(title_text="position pos", hoverformat="d")
    known = np.abs(values[~np.isnan(values)])
    limit = 1.08 * max(1.0, float(known.max())) if known.size else 1.08
    figure.update_yaxes(title_text="value", range=[-limit, limit])
    if trained is not None and len(positions) and trained <= positions[-1]:
        _training_ends(figure, trained, theme, horizontal=False, end=float(positions[-1]))
    return figure


def products(
    matrix: Floats, theme: Theme, *, limit: float, title: str = "PE · PE", height: int = 420
) -> go.Figure:
    """Draw every position against every other: dot products, or cosines with `limit` 1.

    Args:
        matrix: [n, n].
        limit: the largest possible absolute value; the scale runs from -limit to limit.

    Returns: a figure whose first trace is the heatmap, `z` equal to `matrix`.
    """
    hover = "pos %{y} with pos %{x}<br>%{z:.3f}"
    cells = _signed_cells(matrix, limit, theme, hover=hover, title=escape_plotly(title))
    figure = go.Figure(cells)
    style(figure, theme, height=height)
    below = {"orientation": "h", "y": -0.28, "yanchor": "top", "title": {"side": "bottom"}}
    figure.update_traces(colorbar=below)
    figure.update_xaxes(title_text="position", constrain="domain")
    figure.update_yaxes(title_text="position", autorange="reversed", scaleanchor="x")
    return figure


def distance_heatmap(numbers: Floats, distances: Sequence[int], theme: Theme) -> go.Figure:
    """Draw what relative positions add to the logits: heads are rows, distances are columns.

    Args: numbers: [H, n].  distances: [n], key less query.
    """
    limit = max(float(np.abs(numbers).max()), 1e-6) if numbers.size else 1.0
    n_heads = len(numbers)
    hover = "head %{y}, distance %{x}<br>adds %{z:.3f}"
    heatmap = _signed_cells(numbers, limit, theme, hover=hover, title="added")
    heatmap.update(x=list(distances), y=list(range(1, n_heads + 1)))
    figure = go.Figure(heatmap)
    style(figure, theme, height=150 + 26 * n_heads)
    figure.update_xaxes(title_text="distance: position of the key less that of the query")
    figure.update_yaxes(title_text="head", autorange="reversed", dtick=1)
    return figure


def cosines(table: Floats) -> Floats:
    """Return the cosine similarity of every pair of rows; 0 for rows of zeros.

    Shapes: [n, d] to [n, n], float32, values in -1..1.
    """
    rows = table.astype(np.float64)
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = np.divide(rows, length, out=np.zeros_like(rows), where=length > 0)
    similarity: Floats = np.clip(unit @ unit.T, -1, 1).astype(np.float32)
    return similarity


def _signed_cells(
    values: Floats, limit: float, theme: Theme, *, hover: str, title: str
) -> go.Heatmap:
    scale = as_plotly(signed_table(theme))
    return plotly_cells(
        values, (-limit, limit), scale, title, hover, nticks=5, exponentformat="e"
    )  # fmt: skip


def _training_ends(
    figure: go.Figure, trained: int, theme: Theme, *, horizontal: bool, end: float = 0.0
) -> None:
    chrome = CHROME[theme]
    note = {
        "text": "beyond training",
        "font": {"size": 13, "color": chrome.ink},
        "bgcolor": chrome.surface,
        "showarrow": False,
    }
    if horizontal:
        figure.add_hline(y=trained - 0.5, line={"color": chrome.ink, "width": 1.5, "dash": "dot"})
        figure.add_annotation(
            x=0, xref="paper", xanchor="left", y=trained - 0.5, yanchor="top", **note
        )
        return
    figure.add_vrect(
        x0=trained - 0.5, x1=end, fillcolor=chrome.muted, opacity=0.15, line_width=0, layer="below"
    )
    figure.add_annotation(
        x=trained - 0.5, xanchor="left", y=0, yref="paper", yanchor="bottom", **note
    )
