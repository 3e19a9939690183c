"""Token figures: embedding neighbours, piece lengths, and embeddings in a plane."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import altair as alt
import numpy as np

from figures.charts import Drawn, accented, bars, coloured, points, quiet, tips
from figures.labels import plain_token
from figures.palette import CHROME, Theme, categorical
from transformer.types import Bools, Floats, Ints, literals

#: Points in the plane for each token: its embedding ("without" position), the sum, or both.
Added = Literal["both", "without", "with"]
ADDED: tuple[Added, ...] = ("both", "without", "with")

#: Width and height of the plane in px; both axes have the same scale.
_PLANE = (600, 430)


def neighbour_bars(ids: Ints, tokens: Sequence[str], cosines: Floats, theme: Theme) -> Drawn:
    """Draw one bar per neighbour, nearest first.

    Args: ids, cosines: [n].  tokens: [n].
    """
    values = {  # the id distinguishes tokens that are shortened to the same text
        f"{plain_token(token)}  {index}": float(cosine)
        for index, token, cosine in zip(ids, tokens, cosines, strict=True)
    }
    scale = alt.Scale(domain=[min([0.0, *values.values()]), 1])
    height = max(60, 22 * len(values))
    return bars(values, "cosine", theme, marked=values, written=".2f", height=height, scale=scale)


def length_bars(counts: Mapping[str, Mapping[int, int]], theme: Theme) -> Drawn:
    """Draw piece counts by length, stacked by kind; `counts` maps kind to length to count."""
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


@literals
def plane(
    content: Floats, entering: Floats, tokens: Sequence[str], shares: Sequence[float],
    theme: Theme, *, added: Added = "both", chosen: Sequence[int] = (),
    background: Floats | None = None, background_tokens: Sequence[str] = (),
) -> Drawn:  # fmt: skip
    """Draw token embeddings in a plane, and their shift by positional encodings.

    Args:
        content: [n, 2], embeddings.  entering: [n, 2], embeddings plus positions.
        tokens: [n].  shares: [2], explained variance of the axes, 0..1.
        chosen: positions of highlighted tokens.
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
    placed = _labels(drawn[-1 if added == "with" else 0], tokens, set(chosen), added, scales)
    rows = []
    for i, token in enumerate(tokens):
        (start_x, start_y), (moved_x, moved_y) = content[i].tolist(), entering[i].tolist()
        shift = entering[i] - content[i]
        text, label_x, label_y = placed.get(i, ("", start_x, start_y))
        rows.append({
            "token": plain_token(token, 40), "position": i, "chosen": i in chosen,
            "x": start_x, "y": start_y, "x2": moved_x, "y2": moved_y,
            "angle": math.degrees(math.atan2(*map(float, shift))),
            "label": text, "label_x": label_x, "label_y": label_y,
        })  # fmt: skip
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
    look: Any = {"fill": chrome.surface, "strokeWidth": 1.8}
    dot = chart.mark_point(size=55, opacity=1, **({"filled": True} if added == "with" else look))
    layers += [
        dot.encode(x=end_x, y=end_y, color=colour, tooltip=hover),
        chart.mark_text(fontSize=13).encode(
            x=_axis("label_x", 0, scales, shares), y=_axis("label_y", 1, scales, shares),
            color=colour, text=alt.Text("label:N"),
        ),
    ]  # fmt: skip
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


def _labels(
    points: Floats, tokens: Sequence[str], chosen: set[int], added: Added,
    scales: Sequence[list[float]],
) -> dict[int, tuple[str, float, float]]:  # fmt: skip
    """Place labels beside points, clear of other labels and points: position to (label, x, y).

    Chosen tokens come first. Tokens without room for a label have a tooltip only.
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
    """Draw the most probable tokens at one position as bars, best first.

    Args:
        tokens, probabilities: [K].
        actual: the token in the text, drawn in the accent colour.
    """
    names = [f"{rank}  {plain_token(token)}" for rank, token in enumerate(tokens, start=1)]
    return bars(
        dict(zip(names, probabilities, strict=True)), "probability", theme,
        marked=[name for name, token in zip(names, tokens, strict=True) if token == actual],
        written=".1%", height=_BAR * len(names),
        axis=alt.Axis(format="%", tickCount=4), scale=alt.Scale(),
    )  # fmt: skip


def expected(tokens: Sequence[str], probabilities: Floats, theme: Theme, *, chosen: int) -> Drawn:
    """Draw the probability that the model gave to each token of a text.

    Args:
        tokens, probabilities: [n]; NaN if unknown.
        chosen: position with the accent colour.
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


_ORIGINS = ("source", "translation so far", "loose from the source")


def source_bars(tokens: Sequence[str], shares: Floats, loose: Bools, theme: Theme) -> Drawn:
    """Draw a bar for each token, split into source and prefix, and the source's curve.

    Args:
        tokens: [T], predicted tokens.
        shares: [T], of the source, 0 to 1.
        loose: [T], True for tokens with a mark.
    """
    chrome = CHROME[theme]
    rows = [
        {"token": f"{step} {plain_token(token)}", "part": part, "source": round(share, 4),
         "prefix": round(1 - share, 4), "low": low, "high": high, "loose": mark}
        for step, (token, share, mark) in enumerate(
            zip(tokens, shares.tolist(), loose.tolist(), strict=True), 1
        )
        for part, low, high in ((_ORIGINS[0], 0.0, share), (_ORIGINS[1], share, 1.0))
    ]  # fmt: skip
    axis = alt.Axis(labelAngle=-45, labelOverlap=len(tokens) > 40, ticks=False)
    x = alt.X("token:N", sort=None, title=None, axis=axis)
    y = alt.Y("low:Q", title="share", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(tickCount=3))
    base = points(rows).encode(x=x, tooltip=tips(
        "token:N", ("source:Q", ".2f"), ("prefix:Q", ".2f"),
    ))  # fmt: skip
    colour = coloured("part:N", _ORIGINS, (chrome.accent, chrome.rule, chrome.ink), orient="top",
                      symbolOpacity=1)  # fmt: skip
    bars = base.mark_bar(opacity=0.55).encode(y=y, y2="high:Q", color=colour)
    own = base.transform_filter(f"datum.part === '{_ORIGINS[0]}'")
    curve = own.mark_line(color=chrome.ink, strokeWidth=1.5).encode(y="source:Q")
    marks = (
        own.transform_filter("datum.loose").transform_calculate(part=f"'{_ORIGINS[2]}'")
        .mark_point(shape="triangle-down", filled=True, size=90, opacity=1, yOffset=-9)
        .encode(y="source:Q", color=colour)
    )  # fmt: skip
    return quiet(alt.layer(bars, curve, marks), theme, height=220)
