"""Fonts and colours of figures on paper, the widths of text, and pages measured in points."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any

from cycler import cycler
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, fontManager
from matplotlib.textpath import text_to_path

from figures.labels import plain_token
from figures.palette import categorical
from figures.paper.presets import POINTS, Preset

#: Families in order of preference; a character is drawn in the first that has it. DejaVu Sans
#: comes with matplotlib and has Greek, Cyrillic, Hebrew and Arabic.
FAMILIES = (
    "Source Sans 3", "Helvetica", "Arial", "Liberation Sans", "DejaVu Sans",
    "Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans JP", "Noto Sans SC", "Source Han Sans",
    "WenQuanYi Zen Hei", "WenQuanYi Micro Hei", "Hiragino Sans", "PingFang SC", "Yu Gothic",
    "Microsoft YaHei", "Apple SD Gothic Neo", "Malgun Gothic", "Noto Sans KR",
    "Droid Sans Fallback", "Noto Sans Arabic", "Noto Naskh Arabic", "Geeza Pro", "Noto Sans Hebrew",
    "Noto Sans Devanagari", "Noto Sans Bengali", "Noto Sans Tamil", "Noto Sans Thai", "Nirmala UI",
    "Noto Emoji", "Symbola", "Segoe UI Emoji", "Noto Sans Symbols2", "Arial Unicode MS",
)  # fmt: skip
SPACING = 1.3  # of lines, in sizes of their type

# Characters in no installed font are drawn as boxes, without a line on the console for each.
warnings.filterwarnings("ignore", "Glyph .* missing from font")
logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)


@contextmanager
def style(preset: Preset) -> Iterator[None]:
    """Set matplotlib's parameters while a figure is drawn and written."""
    chrome = preset.chrome
    look: dict[Any, object] = {
        "axes.edgecolor": chrome.rule, "axes.facecolor": "none", "axes.labelcolor": chrome.muted,
        "axes.labelsize": preset.small, "axes.linewidth": 0.5, "axes.axisbelow": True,
        "axes.prop_cycle": cycler(color=categorical(16, preset.theme)),
        "grid.color": chrome.rule, "grid.linewidth": 0.5, "text.color": chrome.ink,
        "xtick.major.size": 0, "ytick.major.size": 0,
        "xtick.labelcolor": chrome.ink, "ytick.labelcolor": chrome.ink,
        "font.family": [*_families(), "sans-serif"],
        "font.sans-serif": ["Helvetica", "Arial", "DejaVu Sans"],
        "text.parse_math": False,  # a dollar is a dollar
        "pdf.fonttype": 42,
        "svg.fonttype": "none",  # text stays text
        "svg.hashsalt": "headlight",  # equal figures are equal files
        "savefig.facecolor": "auto", "figure.facecolor": preset.paper,
    }  # fmt: skip
    with rc_context(look):
        yield


@cache
def _families() -> tuple[str, ...]:
    found = set(fontManager.get_font_names())
    return tuple(name for name in FAMILIES if name in found)


class Sheet:
    """A figure whose contents are placed in points, from the left margin and from the top."""

    def __init__(self, preset: Preset, height: float) -> None:
        self.figure = Figure((preset.width, height / POINTS), dpi=POINTS)
        self.margin, (self.wide, self.tall) = preset.margin, self.figure.bbox.size

    def axes(self, x: float, y: float, width: float, height: float) -> Axes:
        """Return new axes."""
        x, y = (x + self.margin) / self.wide, 1 - (y + height) / self.tall
        return self.figure.add_axes((x, y, width / self.wide, height / self.tall))

    def write(self, lines: Sequence[str], y: float, size: float, x: float = 0, **look: Any) -> None:
        """Write lines below each other."""
        for index, line in enumerate(lines):
            middle = 1 - (y + (index + 0.5) * SPACING * size) / self.tall
            self.figure.text((x + self.margin) / self.wide, middle, line, size=size,
                             va="center_baseline", **look)  # fmt: skip


def width(words: str | Sequence[str], size: float, *, bold: bool = False) -> float:
    """Return the width of a line of text, or of the widest of several, in points."""
    lines = [words] if isinstance(words, str) else words
    return size * max((_width(line, bold) for line in lines), default=0.0)


@lru_cache(maxsize=8192)
def _width(words: str, bold: bool) -> float:
    font = FontProperties(family=_families(), size=1, weight="bold" if bold else "normal")
    wide: float = text_to_path.get_text_width_height_descent(words, font, ismath=False)[0]
    return wide


def fitted(words: str, size: float, room: float, *, bold: bool = False) -> str:
    """Return the text, its end replaced by an ellipsis if it is wider than `room`."""
    if width(words, size, bold=bold) <= room + 1e-6:
        return words
    while words and width(words + "…", size, bold=bold) > room:
        words = words[:-1]
    return words.rstrip() + "…"


def wrapped(words: str, size: float, room: float, *, bold: bool = False) -> list[str]:
    """Return the text in lines no wider than `room`; a wider word is broken.

    Text's own `wrap` wraps at the edge of the figure, and breaks no word.
    """
    lines: list[str] = []
    for word in words.split():
        longer = " ".join([*lines[-1:], word])
        if width(longer, size, bold=bold) <= room:
            lines[-1:] = [longer]
            continue
        while len(word) > 1 and width(word, size, bold=bold) > room:
            end = len(word) - 1
            while end > 1 and width(word[:end], size, bold=bold) > room:
                end -= 1
            lines.append(word[:end])
            word = word[end:]
        lines.append(word)
    return lines


def label(token: str, limit: int = 24) -> str:
    """Return a token as every picture on screen shows it."""
    return plain_token(xml_safe(token), limit)


def xml_safe(words: str) -> str:
    """Replace the code points that XML does not allow."""
    return re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]", "\ufffd", words)
