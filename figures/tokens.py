"""Figures of tokens: neighbours in an embedding, lengths in a vocabulary, vectors in a plane."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import altair as alt
import numpy as np

from figures.charts import Drawn, accented, coloured, named_bars, points, quiet, tips
from figures.labels import plain_token
from figures.palette import CHROME, Theme, categorical
from transformer.types import Floats, Ints

#: Points that the plane shows per token: its embedding, the embedding plus position, or both.
Added = Literal["both", "without", "with"]
ADDED: tuple[Added, ...] = ("both", "without", "with")

#: Width and height in px at which both axes of the plane have the same scale.
_PLANE = (600, 430)


def neighbour_bars(ids: Ints, tokens: Sequence[str], cosines: Floats, theme: Theme) -> Drawn:
    """Draw one bar per neighbour, nearest first.

    Args: ids, cosines: [n].  tokens: [n].
    """
    # The id distinguishes tokens that are shortened to the same text.
    order = [f"{plain_token(token)}  {index}" for index, token in zip(ids, tokens, strict=True)]
    rows = [
        {"name": label, "value": float(cosine)}
        for label, cosine in zip(order, cosines, strict=True)
    ]
    lowest = min([0.0, *map(float, cosines)])
    return named_bars(
        rows, alt.X("value:Q", title="cosine", scale=alt.Scale(domain=[lowest, 1])), theme,
        colour=alt.ColorValue(CHROME[theme].accent), written=".2f", height=max(60, 22 * len(rows)),
        hover=tips(("name:N", "", "token"), ("value:Q", ".4f", "cosine")),
    )  # fmt: skip


def length_bars(counts: Mapping[str, Mapping[int, int]], theme: Theme) -> Drawn:
    """Draw the number of pieces of each length, stacked by kind.

    Args: counts: kind to (length to number).
    """
    rows = [
        {"kind": kind, "characters": length, "pieces": count}
        for kind, lengths in counts.items()
        for length, count in sorted(lengths.items())
    ]
    colours = [CHROME[theme].accent, CHROME[theme].muted, *categorical(len(counts), theme)]
    chart = points(rows).mark_bar().encode(
        x=alt.X(
            "characters:O", title="characters", axis=alt.Axis(labelAngle=0, labelOverlap=True)
        ),
        y=alt.Y("sum(pieces):Q", title="pieces", axis=alt.Axis(tickCount=4)),
        color=coloured("kind:N", list(counts), colours[: len(counts)], orient="top"),
        order=alt.Order("kind:N", sort="descending"),
        tooltip=tips("kind:N", "characters:O", "pieces:Q"),
    )  # fmt: skip
    return quiet(chart, theme, height=170)


def plane(
    content: Floats,
    entering: Floats,
    tokens: Sequence[str],
    shares: Sequence[float],
    theme: Theme,
    *,
    added: Added = "both",
    chosen: Sequence[int] = (),
    background: Floats | None = None,
    background_tokens: Sequence[str] = (),
) -> Drawn:
    """Draw token embeddings in a plane, and their shift by positional encodings.

    Args:
        content: [n, 2], the embeddings.  entering: [n, 2], the same with positions added.
        tokens: [n].  shares: [2], of the variance along each axis, 0..1.
        chosen: positions of the tokens to highlight.
        background: [m, 2], other tokens, drawn faintly.  background_tokens: [m].
    """
    for vectors in (content, entering):
        if vectors.shape != (len(tokens), 2):
            raise ValueError(f"points of shape {vectors.shape} for {len(tokens)} tokens")
    drawn = {"both": [content, entering], "without": [content], "with": [entering]}[added]
    others = np.zeros((0, 2), np.float32) if background is None else background
    if len(others) != len(background_tokens):
        raise ValueError(f"{len(others)} points for {len(background_tokens)} background tokens")
    every = np.concatenate([*drawn, others])
    low, high = every.min(axis=0).astype(float), every.max(axis=0).astype(float)
    size = np.maximum(high - low, 1e-6) * 1.16  # with a margin, and one scale for both axes
    half = np.array(_PLANE) * max(size[0] / _PLANE[0], size[1] / _PLANE[1]) / 2
    first, second = np.stack([(low + high) / 2 - half, (low + high) / 2 + half], axis=1).tolist()
    scales = first, second
    x, x2 = (_axis(field, 0, scales, shares) for field in ("x", "x2"))
    y, y2 = (_axis(field, 1, scales, shares) for field in ("y", "y2"))
    end_x, end_y = (x2, y2) if added == "with" else (x, y)
    hover = tips(
        "token:N", "position:Q",
        ("x:Q", ".2f", "embedding, axis 1"), ("y:Q", ".2f", "embedding, axis 2"),
        ("x2:Q", ".2f", "with position, axis 1"), ("y2:Q", ".2f", "with position, axis 2"),
    )  # fmt: skip
    chrome = CHROME[theme]
    colour = accented("datum.chosen", theme, chrome.ink)
    rows = _rows(content, entering, tokens, set(chosen), added, scales)
    chart = points(rows)
    layers: list[Any] = []
    if len(others):
        dots = [
            {"x": float(a), "y": float(b), "token": plain_token(token, 40)}
            for (a, b), token in zip(others, background_tokens, strict=True)
        ]
        layers.append(
            points(dots)
            .mark_point(filled=True, size=14, color=chrome.muted, opacity=0.3)
            .encode(x=x, y=y, tooltip=tips("token:N"))
        )
    if added == "both":
        layers += [
            chart.mark_rule(strokeWidth=1.2, opacity=0.55).encode(
                x=x, y=y, x2=alt.X2("x2:Q"), y2=alt.Y2("y2:Q"), color=colour
            ),
            chart.mark_point(shape="triangle", filled=True, size=46, opacity=1).encode(
                x=x2, y=y2, color=colour, tooltip=hover, angle=alt.Angle("angle:Q", scale=None)
            ),
        ]
    dot = (
        chart.mark_point(size=55, opacity=1, filled=True)
        if added == "with"
        else chart.mark_point(size=55, opacity=1, fill=chrome.surface, strokeWidth=1.8)
    )
    layers += [
        dot.encode(x=end_x, y=end_y, color=colour, tooltip=hover),
        chart.mark_text(fontSize=13).encode(
            x=_axis("label_x", 0, scales, shares),
            y=_axis("label_y", 1, scales, shares),
            color=colour,
            text=alt.Text("label:N"),
        ),
    ]
    return quiet(alt.layer(*layers), theme, height=_PLANE[1])


def _axis(
    field: str, axis: int, scales: Sequence[list[float]], shares: Sequence[float]
) -> alt.X | alt.Y:
    channel = alt.Y if axis else alt.X
    return channel(
        f"{field}:Q",
        title=f"principal axis {axis + 1}: {shares[axis]:.0%} of the variance",
        scale=alt.Scale(domain=scales[axis], nice=False, zero=False),
        axis=alt.Axis(tickCount=6, grid=False),
    )


def _rows(
    content: Floats,
    entering: Floats,
    tokens: Sequence[str],
    chosen: set[int],
    added: Added,
    scales: Sequence[list[float]],
) -> list[dict[str, object]]:
    labels = _labels(entering if added == "with" else content, tokens, chosen, added, scales)
    rows: list[dict[str, object]] = []
    for i, token in enumerate(tokens):
        (x, y), (x2, y2) = content[i], entering[i]
        label, label_x, label_y = labels.get(i, ("", float(x), float(y)))
        angle = math.degrees(math.atan2(float(x2 - x), float(y2 - y)))
        rows.append(
            {"token": plain_token(token, 40), "position": i, "chosen": i in chosen,
             "x": float(x), "y": float(y), "x2": float(x2), "y2": float(y2), "angle": angle,
             "label": label, "label_x": label_x, "label_y": label_y}
        )  # fmt: skip
    return rows


def _labels(
    points: Floats,
    tokens: Sequence[str],
    chosen: set[int],
    added: Added,
    scales: Sequence[list[float]],
) -> dict[int, tuple[str, float, float]]:
    """Place labels beside points, clear of other labels and points: position to (label, x, y).

    Tokens without room get no label, only a tooltip. The chosen tokens come first.
    """
    low = np.array([scales[0][0], scales[1][0]])
    unit = (scales[0][1] - scales[0][0]) / _PLANE[0]  # axis units per pixel
    at = (points - low) / unit
    taken = np.concatenate([at - 4, at + 4], axis=1)  # boxes: left, bottom, right, top
    labels: dict[int, tuple[str, float, float]] = {}
    labelled: set[str] = set()
    for i in sorted(range(len(tokens)), key=lambda i: (i not in chosen, i)):
        if added != "with" and tokens[i] in labelled:
            continue  # equal tokens have equal embeddings at every position
        label = plain_token(tokens[i])
        wide = 3.4 * len(label) + 2
        for dx, dy in ((0, 13), (wide + 8, 0), (0, -13), (-wide - 8, 0)):
            x, y = at[i] + (dx, dy)
            box = np.array([x - wide, y - 7, x + wide, y + 7])
            others = taken[len(at) :] if i in chosen else taken  # chosen labels may cover points
            if not ((box[:2] <= others[:, 2:]) & (box[2:] >= others[:, :2])).all(axis=1).any():
                taken = np.concatenate([taken, box[None]])
                labels[i] = (label, float(low[0] + x * unit), float(low[1] + y * unit))
                labelled.add(tokens[i])
                break
    return labels


_BAR = 28  # px


def candidates(
    tokens: Sequence[str], probabilities: Floats, theme: Theme, *, actual: str = ""
) -> Drawn:
    """Draw the most probable tokens at one place as bars, best first.

    Args:
        tokens, probabilities: [K], 0 to 1.
        actual: the token that stands there, which gets the accent; "" for none.
    """
    rows = [
        {"name": f"{rank}  {plain_token(token)}", "value": float(value), "own": token == actual}
        for rank, (token, value) in enumerate(zip(tokens, probabilities, strict=True), start=1)
    ]
    x = alt.X("value:Q", title="probability", axis=alt.Axis(format="%", tickCount=4))
    return named_bars(
        rows, x, theme, colour=accented("datum.own", theme), written=".1%",
        height=_BAR * len(rows),
        hover=tips(("name:N", "", "token"), ("value:Q", ".4f", "probability")),
    )  # fmt: skip


def expected(tokens: Sequence[str], probabilities: Floats, theme: Theme, *, chosen: int) -> Drawn:
    """Draw how probable each token of a text was to the model, in the text's order.

    Args:
        tokens, probabilities: [n]; NaN where nothing is known.
        chosen: the place that gets the accent.
    """
    rows = [
        {"place": f"{place}  {plain_token(token)}", "chosen": place - 1 == chosen,
         "probability": None if np.isnan(value) else float(value)}
        for place, (token, value) in enumerate(zip(tokens, probabilities, strict=True), start=1)
    ]  # fmt: skip
    chart = points(rows).mark_bar().encode(
        x=alt.X("place:N", sort=None, title=None, axis=alt.Axis(labelAngle=-45, labelLimit=120)),
        y=alt.Y(
            "probability:Q", title="probability", axis=alt.Axis(format="%", tickCount=3),
            scale=alt.Scale(domain=[0, 1]),
        ),
        color=accented("datum.chosen", theme),
        tooltip=tips("place:N", ("probability:Q", ".4f")),
    )  # fmt: skip
    return quiet(chart, theme, height=10 * _BAR)
