"""The colours of both themes: one source for Plotly, Altair and canvas components.

Attention is light. In the dark theme a weight of 0 is near-black and a weight of 1 a pale, warm
amber; in the light theme 0 is paper white and 1 deep indigo. The scale always spans 0 to 1, so a
colour means the same weight in every picture. Its lightness (CIELAB L*) is linear in the square
root of the weight, since most weights are small and means over heads smaller still, and its hue
hardly changes, so it reads the same with any colour vision and in greyscale. A table holds 256 even
steps of lightness; `weight_levels` are the entries of weights.

Signed values (positional encodings, logits) use a diverging scale that leaves the background at 0
and ends in blue (negative) and orange (positive), both equally light. Heads and other categories
take `categorical`, whose colours do not repeat.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from transformer.types import Reals

#: Weights named on a legend that is long enough.
WEIGHT_TICKS = (0.0, 0.1, 0.25, 0.5, 1.0)

Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = ("light", "dark")

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Chrome:
    """Colours around a picture, as hex; they match the Streamlit theme."""

    surface: str  # page background
    ink: str  # text
    muted: str  # secondary text and axes
    rule: str  # hairlines
    accent: str  # the only accent, for selections


CHROME: dict[Theme, Chrome] = {
    "light": Chrome("#fdfcf9", "#1d1c26", "#625f70", "#e4e1d8", "#4338b0"),
    "dark": Chrome("#0f0e0d", "#efebe4", "#a49d92", "#33302b", "#f2a93b"),
}

# Anchors of the sequential scales as (weight, L*, C*ab, hue in degrees). Between anchors a* and b*
# are linear; L* is linear over the whole scale.
_ATTENTION: dict[Theme, tuple[tuple[float, float, float, float], ...]] = {
    "light": (
        (0.0, 98.5, 2.0, 95.0),
        (0.5, 60.0, 45.0, 296.0),
        (1.0, 21.5, 62.0, 302.0),
    ),
    "dark": (
        (0.0, 5.0, 2.0, 60.0),
        (0.25, 27.5, 34.0, 58.0),
        (0.5, 50.0, 58.0, 66.0),
        (0.75, 72.5, 70.0, 78.0),
        (1.0, 95.0, 24.0, 92.0),
    ),
}

# Two arms of a diverging scale: (C*ab, hue) at -1 and at +1, L* at 0 and at the ends.
_SIGNED: dict[Theme, tuple[tuple[float, float], tuple[float, float], float, float]] = {
    "light": ((50.0, 275.0), (62.0, 50.0), 97.5, 38.0),
    "dark": ((44.0, 260.0), (62.0, 72.0), 8.0, 76.0),
}

# Sixteen colours for categories, ordered by their smallest distance, largest first (in CIELAB, the
# minimum over normal, protan, deutan and tritan vision), each at least 3:1 against the page.
_CATEGORICAL: dict[Theme, tuple[str, ...]] = {
    "light": (
        "#4836af", "#b12714", "#3b9db1", "#003b27", "#896276", "#9d0089", "#007627", "#b176d8",
        "#4e2700", "#4e2762", "#d87662", "#00629d", "#eb4e9d", "#89143b", "#898900", "#0076eb",
    ),
    "dark": (
        "#ffad40", "#006fef", "#00f9f2", "#d2005d", "#607200", "#0088b8", "#dfe3b3", "#d698a3",
        "#56bd66", "#ff86fb", "#007966", "#c7ed79", "#e47346", "#ad3e94", "#b0a2ce", "#b38f00",
    ),
}  # fmt: skip


@cache
def attention_table(theme: Theme) -> Bytes:
    """Return the attention scale, [256, 3] sRGB: entry i is the colour of weight (i / 255)²."""
    anchors = _ATTENTION[theme]
    weights = np.linspace(0, 1, 256)
    at = np.array([anchor[0] for anchor in anchors])
    lab = _lch_to_lab(np.array([anchor[1:] for anchor in anchors]))
    lightness = np.interp(weights, [0, 1], lab[[0, -1], 0])
    a, b = (np.interp(weights, at, lab[:, channel]) for channel in (1, 2))
    return _to_srgb(np.stack([lightness, a, b], axis=1))


@cache
def signed_table(theme: Theme) -> Bytes:
    """Return the diverging scale, [256, 3] sRGB: -1 is entry 0, 0 is 127 and 128, 1 is 255."""
    negative, positive, middle, end = _SIGNED[theme]
    strength = np.abs(np.linspace(-1, 1, 256))
    arm = np.arange(256) >= 128
    chroma = np.where(arm, positive[0], negative[0]) * strength
    hue = np.where(arm, positive[1], negative[1])
    lightness = middle + (end - middle) * strength
    return _to_srgb(_lch_to_lab(np.stack([lightness, chroma, hue], axis=1)))


def weight_levels(weights: NDArray[np.floating]) -> Bytes:
    """Return the entries of the attention scale for weights, clipped to 0..1; NaN is entry 0."""
    share = np.sqrt(np.clip(np.nan_to_num(np.asarray(weights, dtype=np.float64)), 0.0, 1.0))
    levels: Bytes = np.rint(share * 255).astype(np.uint8)
    return levels


def scale_words(theme: Theme) -> str:
    """Return how to read the attention scale, as every legend says it."""
    return f"{'darker' if theme == 'light' else 'brighter'} is more · square-root scale"


def as_plotly(table: Bytes, stops: int = 64) -> list[list[float | str]]:
    """Return a table as a Plotly colorscale with `stops` evenly spaced stops (at most 256)."""
    picked = as_altair(table, stops)
    return [[i / (len(picked) - 1), colour] for i, colour in enumerate(picked)]


def attention_plotly(theme: Theme) -> list[list[float | str]]:
    """Return the attention scale as a Plotly colorscale over weights 0 to 1."""
    stops = as_plotly(attention_table(theme))
    return [[float(share) ** 2, colour] for share, colour in stops]


def as_altair(table: Bytes, stops: int = 64) -> list[str]:
    """Return a table as the `range` of an Altair scale; that of attention has `type="sqrt"`."""
    if not 2 <= stops <= 256:
        raise ValueError(f"stops={stops}; expected 2 to 256")
    return [hex_of(table[i]) for i in np.rint(np.linspace(0, 255, stops)).astype(int)]


def categorical(n: int, theme: Theme) -> list[str]:
    """Return `n` different hex colours; a larger n only appends to the list.

    The first 16 are distinct with any colour vision; further ones differ by hue and lightness, and
    are best shown with their names.
    """
    if n < 0:
        raise ValueError(f"n={n} colours; expected at least 0")
    colours = list(_CATEGORICAL[theme][:n])
    lightness = (45.0, 60.0, 35.0) if theme == "light" else (70.0, 55.0, 85.0)
    step = 0
    while len(colours) < n:
        hue = (20.0 + 137.508 * step) % 360
        lab = _lch_to_lab(np.array([[lightness[step % 3], 48.0, hue]]))
        colour = hex_of(_to_srgb(lab)[0])
        if colour not in colours:
            colours.append(colour)
        step += 1
    return colours


def to_weight_bytes(weights: NDArray[np.floating]) -> Bytes:
    """Convert weights in 0..1 to bytes, 255 = 1, rounded to nearest; the error is below 0.002.

    Raises: `ValueError` if a weight is NaN or lies outside 0..1 (by more than 1e-3).
    """
    values = np.asarray(weights, dtype=np.float32)
    if values.size and not (np.nanmin(values) >= -1e-3 and np.nanmax(values) <= 1 + 1e-3):
        raise ValueError("attention weights lie outside 0..1")
    if np.isnan(values).any():
        raise ValueError("attention weights contain NaN")
    return np.rint(np.clip(values, 0.0, 1.0) * 255).astype(np.uint8)


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two hex colours, 1 to 21 (WCAG 2.2)."""
    first, second = (_luminance(colour) for colour in (one, other))
    return float((max(first, second) + 0.05) / (min(first, second) + 0.05))


_RGB_TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375],
     [0.2126729, 0.7151522, 0.0721750],
     [0.0193339, 0.1191920, 0.9503041]]
)  # fmt: skip
_WHITE = _RGB_TO_XYZ.sum(axis=1)


def _lch_to_lab(lch: Reals) -> Reals:
    angle = np.deg2rad(lch[:, 2])
    return np.stack([lch[:, 0], lch[:, 1] * np.cos(angle), lch[:, 1] * np.sin(angle)], axis=1)


def _to_srgb(lab: Reals) -> Bytes:
    """Convert [n, 3] CIELAB to sRGB; colours out of gamut lose chroma, never lightness."""
    inside = np.zeros(len(lab))
    outside = np.ones(len(lab))
    fits = _in_gamut(lab)
    for _ in range(20):  # bisect the largest share of the chroma in gamut
        half = (inside + outside) / 2
        ok = _in_gamut(lab * np.stack([np.ones_like(half), half, half], axis=1))
        inside, outside = np.where(ok, half, inside), np.where(ok, outside, half)
    share = np.where(fits, 1.0, inside)
    linear = _lab_to_linear(lab * np.stack([np.ones_like(share), share, share], axis=1))
    linear = np.clip(linear, 0, 1)
    encoded = np.where(
        linear <= 0.0031308, 12.92 * linear, 1.055 * np.power(linear, 1 / 2.4) - 0.055
    )
    table: Bytes = np.rint(encoded * 255).astype(np.uint8)
    table.setflags(write=False)  # it is cached
    return table


def _in_gamut(lab: Reals) -> NDArray[np.bool_]:
    linear = _lab_to_linear(lab)
    inside: NDArray[np.bool_] = np.all((linear >= -1e-4) & (linear <= 1 + 1e-4), axis=1)
    return inside


def _lab_to_linear(lab: Reals) -> Reals:
    y = (lab[:, 0] + 16) / 116
    f = np.stack([y + lab[:, 1] / 500, y, y - lab[:, 2] / 200], axis=1)
    xyz = np.where(f > 6 / 29, f**3, 3 * (6 / 29) ** 2 * (f - 4 / 29)) * _WHITE
    linear: Reals = xyz @ np.linalg.inv(_RGB_TO_XYZ).T
    return linear


def _linear(encoded: Reals) -> Reals:
    return np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)


def _luminance(colour: str) -> float:
    return float(_linear(_rgb_of(colour) / 255) @ _RGB_TO_XYZ[1])


def mixed(colour: str, paper: str, share: float) -> str:
    """Return `share` of one hex colour over another, as a solid colour."""
    mean = share * _rgb_of(colour) + (1 - share) * _rgb_of(paper)
    return hex_of(np.rint(mean).astype(np.uint8))


def _rgb_of(colour: str) -> NDArray[np.int64]:
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)])


def hex_of(rgb: NDArray[np.uint8]) -> str:
    """Return a colour of a table as hex."""
    return "#{:02x}{:02x}{:02x}".format(*(int(part) for part in rgb))
