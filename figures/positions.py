"""Positional encodings (section 3.5): table, curves, dot products and rotations.

As in the formula, the first token has pos 0. Values are in -1..1, on the diverging scale, where 0
has the page colour.
"""

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
    """Draw dot products by offset k from several starts; the curves coincide.

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
        # Wide lines are drawn below narrow ones, so that equal curves are all visible.
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
    """Draw each (sin, cos) pair as a clock hand, before and after its rotation.

    Sine points up and cosine right, so a hand points at the angle pos w_i.

    Args:
        before: [P, 2], pairs of PE(pos), sine first.  after: [P, 2], the same rotated by M_k.
        expected: [P, 2], pairs of PE(pos + k).  names: [P].
    """
    hands_by_name = {"PE(pos)": before, "turned by k": after, "PE(pos + k)": expected}
    for pairs in hands_by_name.values():
        if pairs.shape != (len(names), 2):
            raise ValueError(f"pairs of shape {pairs.shape}; expected ({len(names)}, 2)")
    rows = [
        {"pair": name, "what": what, "x": float(x), "y": float(y), "x0": 0.0, "y0": 0.0}
        for what, pairs in hands_by_name.items()
        for name, (y, x) in zip(names, pairs, strict=True)
    ]
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
        "what:N", [*hands_by_name], [chrome.muted, *categorical(2, theme)], orient="top",
        symbolStrokeWidth=3,
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


_MOST_MARKERS = 64  # longer curves have no dots


def encoding_heatmap(
    table: Floats, theme: Theme, *, trained: int | None = None, limit: float | None = None,
    height: int = 420,
) -> go.Figure:  # fmt: skip
    """Draw the encoding: positions 0, 1, ... are rows, dimensions are columns.

    Args:
        table: [n, d], float32.
        trained: number of positions seen in training; a line marks the last of them.
        limit: end of the scale; by default the largest absolute value, at least 1.

    Returns: a figure whose first trace is the heatmap, `z` equal to `table`.
    """
    digits = ".4f" if limit is None else ".3g"
    if limit is None:
        limit = float(np.abs(table).max(initial=1.0))
    hover = f"pos %{{y}}, dimension %{{x}}<br>value %{{z:{digits}}}"
    titles = ("dimension of the encoding", "position pos")
    figure = _signed_heatmap(table, limit, theme, hover, "value", titles, height)
    if trained is not None and trained < len(table):
        _training_ends(figure, trained, theme, horizontal=True)
    return figure


def curves(
    positions: NDArray[np.int64], values: Floats, names: Sequence[str], theme: Theme, *, trained:
    int | None = None,
) -> go.Figure:  # fmt: skip
    """Draw one line per dimension over positions; positions beyond training are shaded.

    Args: positions: [n].  values: [n, D], one column per line.  names: [D].

    Returns: a figure with D line traces.
    """
    if values.shape != (len(positions), len(names)):
        raise ValueError(
            f"values of shape {values.shape} for {len(positions)} positions and {len(names)} lines"
        )
    figure, mode = go.Figure(), "lines+markers" if len(positions) <= _MOST_MARKERS else "lines"
    colours = categorical(len(names), theme)
    for line, name, colour in zip(values.astype(np.float32).T, names, colours, strict=True):
        figure.add_scatter(
            x=positions, y=line, name=escape_plotly(name), mode=mode, marker={"size": 5},
            line={"color": colour, "width": 2.5}, hovertemplate="%{y:.4f}",
        )  # fmt: skip
    style(figure, theme, height=340)
    legend = {"orientation": "h", "yanchor": "bottom", "y": 1.02, "x": 0}
    figure.update_layout(hovermode="x unified", legend=legend, showlegend=True)
    figure.update_xaxes(title_text="position pos", hoverformat="d")
    limit = 1.08 * float(np.abs(values[~np.isnan(values)]).max(initial=1.0))
    figure.update_yaxes(title_text="value", range=[-limit, limit])
    if trained is not None and len(positions) and trained <= positions[-1]:
        _training_ends(figure, trained, theme, horizontal=False, end=float(positions[-1]))
    return figure


def products(
    matrix: Floats, theme: Theme, *, limit: float, title: str = "PE · PE", height: int = 420
) -> go.Figure:
    """Draw products of all pairs of positions: dot products, or cosines with `limit` 1.

    Args:
        matrix: [n, n].
        limit: end of the scale, the largest possible absolute value.

    Returns: a figure whose first trace is the heatmap, `z` equal to `matrix`.
    """
    hover, titles = "pos %{y} with pos %{x}<br>%{z:.3f}", ("position", "position")
    figure = _signed_heatmap(matrix, limit, theme, hover, escape_plotly(title), titles, height)
    below = {"orientation": "h", "y": -0.28, "yanchor": "top", "title": {"side": "bottom"}}
    figure.update_traces(colorbar=below)
    figure.update_xaxes(constrain="domain")
    figure.update_yaxes(scaleanchor="x")
    return figure


def distance_heatmap(numbers: Floats, distances: Sequence[int], theme: Theme) -> go.Figure:
    """Draw the terms that relative positions add to logits: rows are heads, columns distances.

    Args: numbers: [H, n].  distances: [n], key position minus query position.
    """
    limit, n_heads = float(np.abs(numbers).max(initial=1e-6)), len(numbers)
    hover = "head %{y}, distance %{x}<br>adds %{z:.3f}"
    titles = ("distance: key position minus query position", "head")
    figure = _signed_heatmap(numbers, limit, theme, hover, "added", titles, 150 + 26 * n_heads)
    figure.update_traces(x=list(distances), y=list(range(1, n_heads + 1)))
    figure.update_yaxes(dtick=1)
    return figure


def cosines(table: Floats) -> Floats:
    """Return the cosine similarity of all pairs of rows, [n, d] to [n, n]; 0 for zero rows."""
    rows = table.astype(np.float64)
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = np.divide(rows, length, out=np.zeros_like(rows), where=length > 0)
    similarity: Floats = np.clip(unit @ unit.T, -1, 1).astype(np.float32)
    return similarity


def _signed_heatmap(
    values: Floats, limit: float, theme: Theme, hover: str, title: str, axes: tuple[str, str],
    height: int,
) -> go.Figure:  # fmt: skip
    options = {"nticks": 5, "exponentformat": "e"}
    scale = as_plotly(signed_table(theme))
    figure = go.Figure(plotly_cells(values, (-limit, limit), scale, title, hover, **options))
    style(figure, theme, height=height)
    figure.update_xaxes(title_text=axes[0])
    figure.update_yaxes(title_text=axes[1], autorange="reversed")
    return figure


def _training_ends(
    figure: go.Figure, trained: int, theme: Theme, *, horizontal: bool, end: float = 0.0
) -> None:
    chrome, at = CHROME[theme], trained - 0.5
    note = {
        "text": "beyond training", "font": {"size": 13, "color": chrome.ink},
        "bgcolor": chrome.surface, "showarrow": False, "xanchor": "left",
    }  # fmt: skip
    if horizontal:
        figure.add_hline(y=at, line={"color": chrome.ink, "width": 1.5, "dash": "dot"})
        figure.add_annotation(x=0, xref="paper", y=at, yanchor="top", **note)
        return
    look = {"fillcolor": chrome.muted, "opacity": 0.15, "line_width": 0, "layer": "below"}
    figure.add_vrect(x0=at, x1=end, **look)
    figure.add_annotation(x=at, y=0, yref="paper", yanchor="bottom", **note)
