"""The colours of a matrix, and the legend that says what they mean."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from math import ceil

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from figures.exhibit import Numbers, Panel, Scale
from figures.palette import (
    WEIGHT_TICKS,
    attention_table,
    hex_of,
    scale_words,
    signed_table,
    weight_levels,
)
from figures.paper.pen import Block, Pen
from figures.paper.presets import Preset
from figures.paper.text import width_of, wrapped

_MOST_SIDE = 512  # maximum pixels of a picture before it is enlarged
_SHARP = 6  # pixels for a point at least, so that no viewer blurs a picture's cells
_STOPS = 32  # of a legend's colours


def coloured(
    values: Numbers, scale: Scale, limit: float | None, preset: Preset
) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Return the colour of every value, [n, m, 3], and which values are known.

    Args:
        limit: end of the diverging scale.
    """
    if scale == "attention":
        return attention_table(preset.theme)[weight_levels(values)], ~np.isnan(values)
    levels = np.nan_to_num((values / (limit or 1.0) + 1) / 2 * 255)
    table = signed_table(preset.theme)
    return table[np.clip(np.rint(levels), 0, 255).astype(np.uint8)], ~np.isnan(values)


def picture(panel: Panel, limit: float | None, preset: Preset, side: float) -> str:
    """Return a matrix as a PNG data URL; missing values are of the paper's colour.

    Args:
        side: of the picture in points, the longer one.
    """
    values = pooled(np.asarray(panel.values, dtype=np.float64))
    pixels, known = coloured(values, panel.scale, limit, preset)
    pixels[~known] = [int(preset.paper[at : at + 2], 16) for at in (1, 3, 5)]
    times = max(1, ceil(_SHARP * side / max(values.shape)))
    pixels = pixels.repeat(times, axis=0).repeat(times, axis=1)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG", optimize=False)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def pooled(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Reduce to at most `_MOST_SIDE` per side: the value farthest from 0 of each block."""
    for axis, size in enumerate(values.shape):
        if size > _MOST_SIDE:
            starts = np.arange(_MOST_SIDE) * size // _MOST_SIDE
            most = np.fmax.reduceat(values, starts, axis=axis)
            least = np.fmin.reduceat(values, starts, axis=axis)
            values = np.where(np.abs(least) > np.abs(most), least, most)
    return values


def scales(
    panels: list[Panel], limits: Mapping[str, float], preset: Preset, room: float
) -> list[Block]:
    """Return a legend for each scale of the panels: one for weights, one for each quantity."""
    found = []
    weights = (panel.quantity or "weight" for panel in panels if panel.scale == "attention")
    for quantity in dict.fromkeys(weights):
        ticks = [(value**0.5, f"{value:g}") for value in WEIGHT_TICKS]
        words = f"{quantity}: {scale_words(preset.theme)}"
        found.append(_scale(words, attention_table(preset.theme), ticks, preset, room))
    for quantity, limit in limits.items():
        ticks = [(0, f"−{limit:.3g}"), (0.5, "0"), (1, f"{limit:.3g}")]
        table = signed_table(preset.theme)
        found.append(_scale(quantity or "value", table, ticks, preset, room))
    return found


def _scale(
    words: str,
    table: NDArray[np.uint8],
    ticks: list[tuple[float, str]],
    preset: Preset,
    room: float,
) -> Block:
    """Return a bar of a scale's colours with its name beside it."""
    size, chrome = preset.small, preset.chrome
    bar, tall, inset = min(0.3 * room, 16 * size), 0.9 * size, 1.2 * size
    right = inset + bar + 1.5 * size
    lines = wrapped(words, size, room - right)

    def draw(pen: Pen, left: float, top: float) -> None:
        step = bar / _STOPS
        pen.elements.append('<g class="scale" shape-rendering="crispEdges">')
        for index, level in enumerate(np.linspace(0, 255, _STOPS).round().astype(int)):
            pen.rect(left + inset + index * step, top, step, tall, hex_of(table[level]))
        pen.elements.append("</g>")
        end = -size
        for share, value in ticks:
            x, wide = left + inset + share * bar, width_of(value, size)
            if x - wide / 2 > end:
                pen.line(x, top + tall, x, top + tall + 0.25 * size, chrome.muted, 0.5)
                pen.text(x, top + tall + 0.85 * size, value, size, chrome.ink, anchor="middle")
                end = x + wide / 2 + 0.4 * size
        for index, line in enumerate(lines):
            y = top + tall / 2 + index * 1.25 * size
            pen.text(left + right, y, line, size, chrome.ink, kind="unit")

    return Block(room, max(tall + 1.4 * size, len(lines) * 1.25 * size), draw)
