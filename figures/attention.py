"""Attention maps as heatmaps, values as a table, maps in words, and differences of two maps.

Rows are queries (the tokens that attend), columns are keys (the tokens attended to): a map of T
queries and S keys has shape [T, S] and is never transposed.

Differences are between -1 and 1 on a scale symmetric about 0, so equal weights have the page
colour. The scale ends at one of a few round numbers: similar pictures then mostly share a scale,
and small differences remain visible.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from textwrap import indent
from typing import Any

import altair as alt
import numpy as np
import plotly.graph_objects as go

from figures.charts import FONT, Drawn, points, quiet, tips, weight_scale
from figures.exhibit import Exhibit, Numbers, Offline, Panel, Series
from figures.labels import plotly_token, reads, signed
from figures.palette import (
    CHROME,
    WEIGHT_TICKS,
    Theme,
    attention_plotly,
    ink_on,
    scale_words,
    shade,
)
from transformer.measures.heads import entropy_bits
from transformer.types import Floats

_MOST_LABELS = 64  # with more, the axis labels of a 700 px plot would touch


def heatmap(
    weights: Floats, query_tokens: Sequence[str], key_tokens: Sequence[str], theme: Theme, *,
    query_title: str = "query", key_title: str = "key", dimmed_keys: Sequence[int] = (),
) -> go.Figure:  # fmt: skip
    """Draw one attention map, with exact values on hover.

    Args:
        weights: [T, S], rows sum to 1. Drawn as float32: Plotly would send float16 as text.
        query_tokens, key_tokens: [T] and [S]; labels add the position, since tokens may repeat.
        query_title, key_title: axis names, after "query:" and "key:".
        dimmed_keys: columns covered in grey; hovering still shows their values.

    Returns: a figure whose first trace is the heatmap, `z` equal to `weights`.

    Raises: `ValueError` if the shape is not [queries, keys].
    """
    check_map(weights, query_tokens, key_tokens)
    chrome = CHROME[theme]
    # Hover texts are made from row and column names: 512 x 512 texts would be 10 MB.
    queries, keys = (
        [f"{i} {plotly_token(token)}" for i, token in enumerate(side, start=1)]
        for side in (query_tokens, key_tokens)
    )
    cells = plotly_cells(
        weights, (0, 1), attention_plotly(theme), f"weight: {scale_words(theme)}",
        "query %{y}<br>key %{x}<br>weight %{z:.4f}", tickvals=list(WEIGHT_TICKS),
    )  # fmt: skip
    figure = go.Figure(cells.update(x=keys, y=queries))
    for key in dimmed_keys:
        figure.add_vrect(
            x0=key - 0.5, x1=key + 0.5, fillcolor=chrome.rule, opacity=0.92, line_width=0
        )
    style(figure, theme)
    figure.update_xaxes(title_text=f"key: {key_title}", side="top", **_ticks(keys), tickangle=-45)
    figure.update_yaxes(title_text=f"query: {query_title}", autorange="reversed", **_ticks(queries))
    return figure


def is_share(values: Floats) -> bool:
    """Return whether all values are from 0 to 1."""
    return bool(values.min() >= 0 and values.max() <= 1)


def head_table(values: Floats, theme: Theme, *, what: str = "weight") -> Drawn:
    """Draw a table with one cell per head: layers are rows, heads are columns.

    Args:
        values: [L, H], coloured on the attention scale from 0 to 1, or from the smallest to the
            largest if any lies outside; a last column and row show the means.
        what: name of the values, for the tooltip.
    """
    wide = np.concatenate([values, values.mean(axis=1, keepdims=True)], axis=1)
    wide = np.concatenate([wide, wide.mean(axis=0, keepdims=True)], axis=0)
    layers, heads = ([*map(str, range(1, size)), "mean"] for size in wide.shape)
    low, high = (0.0, 1.0) if is_share(values) else (float(values.min()), float(values.max()))
    levels = (wide - low) / (high - low or 1)
    rows = [
        {"layer": layers[i], "head": heads[j], "share": float(value),
         "level": float(levels[i, j]), "ink": ink_on(shade(float(levels[i, j]), theme))}
        for (i, j), value in np.ndenumerate(wide)
    ]  # fmt: skip
    plain: dict[str, Any] = {"ticks": False, "domain": False, "labelAngle": 0}
    base = points(rows).encode(
        x=alt.X("head:N", sort=heads, title="head", axis=alt.Axis(orient="top", **plain)),
        y=alt.Y("layer:N", sort=layers, title="layer", axis=alt.Axis(**plain)),
        tooltip=tips("layer:N", "head:N", ("share:Q", ".4f", what)),
    )
    cells = base.mark_rect(stroke=CHROME[theme].surface, strokeWidth=2).encode(
        color=alt.Color("level:Q", scale=weight_scale(theme), legend=None)
    )
    numbers = base.mark_text(fontSize=12).encode(
        text=alt.Text("share:Q", format=".2f"), color=alt.Color("ink:N", scale=None, legend=None)
    )
    height = 26 * len(layers) + 46
    table = alt.layer(cells, numbers).resolve_scale(color="independent")
    return quiet(table, theme, width="container", height=height)


def plotly_cells(
    values: Floats, ends: tuple[float, float], scale: Any, title: str, hover: str, **colorbar: Any
) -> go.Heatmap:
    """Return a matrix as a Plotly heatmap in float32, on a scale between two `ends`."""
    title_options = {"text": title, "side": "right", "font": {"size": 14}}
    return go.Heatmap(
        z=np.asarray(values, dtype=np.float32), zmin=ends[0], zmax=ends[1], colorscale=scale,
        hovertemplate=f"{hover}<extra></extra>",
        colorbar={"title": title_options, "thickness": 10, **colorbar},
    )  # fmt: skip


def check_map(weights: Floats, query_tokens: Sequence[str], key_tokens: Sequence[str]) -> None:
    """Raise `ValueError` unless `weights` is [queries, keys]."""
    expected = (len(query_tokens), len(key_tokens))
    if weights.shape != expected:
        raise ValueError(
            f"map of shape {weights.shape} for {expected[0]} queries and {expected[1]} keys; "
            f"expected {expected}, rows are queries"
        )


def style(figure: go.Figure, theme: Theme, height: int = 560) -> None:
    """Apply the app's style to a Plotly figure: transparent, quiet, one font."""
    chrome = CHROME[theme]
    font = {"family": FONT, "size": 14, "color": chrome.ink}
    figure.update_layout(
        height=height,
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font=font,
        hoverlabel={"bgcolor": chrome.surface, "bordercolor": chrome.muted, "font": font},
    )
    for update in (figure.update_xaxes, figure.update_yaxes):
        update(title_font_size=14, showgrid=False, zeroline=False, automargin=True, ticks="")


def describe(weights: Floats, query_tokens: Sequence[str], key_tokens: Sequence[str]) -> str:
    """Describe a map in one sentence, for screen readers and hover cards.

    States the size, the largest weight and, if rows are distributions, the mean number of keys
    that a row spreads over: 2 to the power of its entropy in bits.
    """
    check_map(weights, query_tokens, key_tokens)
    query, key = divmod(int(np.argmax(weights)), weights.shape[1])
    described = (
        f"{len(query_tokens)} queries by {len(key_tokens)} keys; most of all, "
        f"{reads(query_tokens[query], key_tokens[key])}, {weights[query, key]:.0%}"
    )
    if not np.allclose(weights.sum(axis=-1), 1, atol=1e-3):  # the maximum of several heads
        return described
    spread = (2 ** entropy_bits(weights)).mean()
    return f"{described}; rows spread over {spread:.1f} keys on average"


def _ticks(labels: Sequence[str]) -> dict[str, object]:
    every = max(1, -(-len(labels) // _MOST_LABELS))
    return {"type": "category", "tickmode": "array", "tickvals": list(labels[::every])}


LETTERS = "AB"  # names of the sides
#: Ends of the scale; effects of a cut exceed 1.
LIMITS = (0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 7.5, 10.0, 12.5, 15.0, 20.0, 30.0)


def scale_limit(difference: Floats) -> float:
    """Return the first of `LIMITS` that covers all differences of a map."""
    most = float(np.abs(difference).max()) if difference.size else 0.0
    return next((limit for limit in LIMITS if most <= limit), LIMITS[-1])


def describe_difference(
    difference: Floats, query_tokens: Sequence[str], key_tokens: Sequence[str]
) -> str:
    """Describe a difference in one sentence: the largest excess weight of each side.

    Raises: `ValueError` if the shape is not [queries, keys].
    """
    check_map(difference, query_tokens, key_tokens)
    if not difference.any():
        return "Every weight is the same on both sides"
    sentences = []
    for name, more in zip(LETTERS, (difference, -difference), strict=True):
        query, key = divmod(int(np.argmax(more)), more.shape[1])
        most = float(more[query, key])
        if most > 0:
            sentences.append(
                f"{name} looks more by up to {most:.2f}, where "
                f"{reads(query_tokens[query], key_tokens[key])}"
            )
    return "; ".join(sentences)


def describe_effect(effects: Floats, query_tokens: Sequence[str], key_tokens: Sequence[str]) -> str:
    """Describe changes of log-probabilities [queries, keys] in one sentence."""
    query, key = divmod(int(np.abs(effects).argmax()), effects.shape[1])
    return (
        f"{len(query_tokens)} queries by {len(key_tokens)} keys; the largest change is "
        f"{signed(float(effects[query, key]))} nats, where "
        f"{reads(query_tokens[query], key_tokens[key])}"
    )


def beside(name: str, title: str, caption: str, sides: Mapping[str, Exhibit]) -> Exhibit:
    """Combine the figures of sides "A" and "B", or of one of them.

    Titles of parts and views start with the side's letter, array names end in `_a` or `_b`, and the
    program runs both programs. Raises `ValueError` if there are no sides.
    """
    parts: list[Panel | Series] = []
    arrays: dict[str, Numbers] = {}
    views: list[Offline] = []
    titles, program = [], ""
    for letter, side in sides.items():
        small = letter.lower()
        parts += [replace(part, title=f"{letter}: {part.title}") for part in side.parts]
        arrays |= {f"{key}_{small}": values for key, values in side.arrays.items()}
        views += [replace(view, title=f"{letter}: {side.title}") for view in side.views]
        names = list(side.arrays)
        variables = "".join(f"{key}_{small}, " for key in names).rstrip()
        program += (
            f"def side_{small}():\n"
            + indent(side.snippet, "    ")
            + f"    return {', '.join(names)},\n\n\n{variables} = side_{small}()\n\n\n"
        )
        where = side.facts.get("Attention", "")
        place = f" ({where})" if where and where not in side.title else ""
        titles.append(f"{letter}: {side.title}{place}")
    return Exhibit(
        name, title, f"{caption} {'; '.join(titles)}.", tuple(parts), arrays,
        program.rstrip("\n") + "\n", tuple(views), columns=1,
    )  # fmt: skip
