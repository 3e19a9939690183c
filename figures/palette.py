"""The colours of both themes: one source for Plotly, Altair and canvas components.

Attention is light. In the dark theme a weight of 0 is near-black and a weight of 1 a pale, warm
amber; in the light theme 0 is paper white and 1 deep indigo. The scale always spans 0 to 1, so a
colour means the same weight in every picture. Its lightness (CIELAB L*) is linear in the square
root of the weight, since most weights are small and means over heads smaller still, and its hue
hardly changes, so it reads the same with any colour vision and in greyscale. The table has 256
steps of equal lightness; `weight_levels` maps weights to its entries.

Signed values use one diverging scale in every picture: the background colour at 0, blue below it
and orange above it, of equal lightness. So blue is what lowers a score or a probability and orange
what raises it; `signs` has both colours for bars and words. Heads and other categories use
`categorical`: its first 16 colours are ordered by their smallest distance in CIELAB over normal,
protan, deutan and tritan vision, and have a contrast of at least 3:1 with the page. Queries, keys,
values and the residual stream have one colour each in every picture, `ROLES`.
"""

import json
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

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


class _Themes(dict[Theme, Chrome]):
    def __missing__(self, theme: object) -> NoReturn:
        raise ValueError(f"theme {theme!r} is not one of {', '.join(self)}")


CHROME = _Themes({
    "light": Chrome("#fdfcf9", "#1d1c26", "#625f70", "#e4e1d8", "#4338b0"),
    "dark": Chrome("#0f0e0d", "#efebe4", "#a49d92", "#33302b", "#f2a93b"),
})  # fmt: skip

#: Colours of queries, keys, values and the residual stream: as text on the page at least 4.5:1, and
#: apart for any colour vision, from each other and from the accent.
ROLES: dict[Theme, dict[str, str]] = {
    "light": {"q": "#0277bc", "k": "#bb1601", "v": "#035a35", "residual": "#be0378"},
    "dark": {"q": "#4d9bff", "k": "#f04a4a", "v": "#46e0a0", "residual": "#f6c1e4"},
}

#: Colours by theme and name, as joined hex: 256 of each scale, and the list of categories.
_COLOURS: dict[str, dict[str, str]] = json.loads(
    Path(__file__).with_suffix(".json").read_text(encoding="ascii")
)


def _table(theme: Theme, name: str) -> Bytes:
    _ = CHROME[theme]  # refuses other themes
    return np.frombuffer(bytes.fromhex(_COLOURS[theme][name]), np.uint8).reshape(-1, 3)


def attention_table(theme: Theme) -> Bytes:
    """Return the attention scale, [256, 3] sRGB: entry i is the colour of weight (i / 255)²."""
    return _table(theme, "attention")


def signed_table(theme: Theme) -> Bytes:
    """Return the diverging scale, [256, 3] sRGB: -1 is entry 0, 0 is 127 and 128, 1 is 255."""
    return _table(theme, "signed")


def signs(theme: Theme) -> tuple[str, str]:
    """Return the colours of negative and positive values, as hex: blue lowers, orange raises."""
    return hex_of(signed_table(theme)[32]), hex_of(signed_table(theme)[223])


def weight_levels(weights: NDArray[np.floating]) -> Bytes:
    """Return the scale entries of attention weights, clipped to 0..1; NaN is entry 0."""
    share = np.sqrt(np.clip(np.nan_to_num(np.asarray(weights, dtype=np.float64)), 0.0, 1.0))
    levels: Bytes = np.rint(share * 255).astype(np.uint8)
    return levels


def shade(value: float, theme: Theme, change: bool = False) -> str:
    """Return the colour of a weight, or of a change in -1..1 on a signed square-root scale."""
    if change:
        root = np.copysign(np.sqrt(abs(value)), value)
        return hex_of(signed_table(theme)[int(127.5 * (1 + root))])
    return hex_of(attention_table(theme)[weight_levels(np.array(value))])


def scale_words(theme: Theme) -> str:
    """Return the legend of the attention scale: how to read its colours."""
    _ = CHROME[theme]  # refuses other themes
    return f"{'darker' if theme == 'light' else 'brighter'} is more · square-root scale"


def as_plotly(table: Bytes) -> list[list[float | str]]:
    """Return a table as a Plotly colorscale."""
    picked = as_altair(table)
    return [[i / (len(picked) - 1), colour] for i, colour in enumerate(picked)]


def attention_plotly(theme: Theme) -> list[list[float | str]]:
    """Return the attention scale as a Plotly colorscale over weights 0 to 1."""
    return [[float(share) ** 2, colour] for share, colour in as_plotly(attention_table(theme))]


def as_altair(table: Bytes) -> list[str]:
    """Return 64 colours of a table, the `range` of an Altair scale; attention needs `"sqrt"`."""
    return [hex_of(table[i]) for i in np.rint(np.linspace(0, 255, 64)).astype(int)]


def categorical(n: int, theme: Theme) -> list[str]:
    """Return the first `n` colours of the list of categories, as hex.

    The first 16 differ for any colour vision; further ones differ by hue and lightness, and need
    their names beside them. After 256 they repeat.
    """
    if n < 0:
        raise ValueError(f"n={n} colours; expected at least 0")
    return [hex_of(colour) for colour in islice(cycle(_table(theme, "categorical")), n)]


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


def _luminance(colour: str) -> float:
    share = _rgb_of(colour) / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126729, 0.7151522, 0.0721750))


def ink_on(colour: str) -> str:
    """Return black or white, whichever contrasts more with a colour: at least 4.5:1."""
    return max("#000000", "#ffffff", key=lambda ink: contrast(ink, colour))


def mixed(colour: str, paper: str, share: float) -> str:
    """Blend one hex colour over another at opacity `share`, and return the opaque result."""
    mean = share * _rgb_of(colour) + (1 - share) * _rgb_of(paper)
    return hex_of(np.rint(mean).astype(np.uint8))


def _rgb_of(colour: str) -> NDArray[np.int64]:
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)])


def hex_of(rgb: NDArray[np.uint8]) -> str:
    """Return an RGB colour as hex."""
    return "#{:02x}{:02x}{:02x}".format(*(int(part) for part in rgb))
