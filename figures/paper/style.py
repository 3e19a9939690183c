"""Fonts and colours of figures on paper, and the widths of text."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any

from cycler import cycler
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties, fontManager
from matplotlib.textpath import text_to_path

from figures.labels import plain_token
from figures.palette import categorical
from figures.paper.presets import Preset

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

# Characters in no installed font are drawn as boxes, without a line on the console for each.
warnings.filterwarnings("ignore", "Glyph .* missing from font")
logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)


@contextmanager
def style(preset: Preset) -> Iterator[None]:
    """Set matplotlib's parameters while a figure is drawn and written."""
    chrome = preset.chrome
    lines: dict[Any, object] = {
        "axes.edgecolor": chrome.rule, "axes.facecolor": "none", "axes.labelcolor": chrome.muted,
        "axes.labelsize": preset.small, "axes.linewidth": 0.5, "axes.axisbelow": True,
        "axes.prop_cycle": cycler(color=categorical(16, preset.theme)),
        "grid.color": chrome.rule, "grid.linewidth": 0.5, "text.color": chrome.ink,
        "xtick.major.size": 0, "ytick.major.size": 0,
        "xtick.labelcolor": chrome.ink, "ytick.labelcolor": chrome.ink,
    }  # fmt: skip
    text: dict[Any, object] = {
        "font.family": [*_families(), "sans-serif"],
        "font.sans-serif": ["Helvetica", "Arial", "DejaVu Sans"],
        "text.parse_math": False,  # a dollar is a dollar
        "pdf.fonttype": 42,
        "svg.fonttype": "none",  # text stays text
        "svg.hashsalt": "headlight",  # equal figures are equal files
        "savefig.facecolor": "auto",
        "figure.facecolor": preset.paper,
    }
    with rc_context({**lines, **text}):
        yield


@cache
def _families() -> tuple[str, ...]:
    found = set(fontManager.get_font_names())
    return tuple(name for name in FAMILIES if name in found)


def width(words: str, size: float, *, bold: bool = False) -> float:
    """Return the width of one line of text, in points."""
    return size * _width(words, bold)


@lru_cache(maxsize=8192)
def _width(words: str, bold: bool) -> float:
    font = FontProperties(family=_families(), size=1, weight="bold" if bold else "normal")
    wide: float = text_to_path.get_text_width_height_descent(words, font, ismath=False)[0]
    return wide


def widest(lines: tuple[str, ...] | list[str], size: float) -> float:
    """Return the width of the widest line; 0 for none."""
    return max((width(each, size) for each in lines), default=0.0)


def fitted(words: str, size: float, room: float, *, bold: bool = False) -> str:
    """Return the text, its end replaced by an ellipsis if it is wider than `room`."""
    if width(words, size, bold=bold) <= room + 1e-6:
        return words
    while words and width(words + "…", size, bold=bold) > room:
        words = words[:-1]
    return words.rstrip() + "…"


def wrapped(words: str, size: float, room: float, *, bold: bool = False) -> list[str]:
    """Return the text in lines no wider than `room`; a wider word is broken."""
    lines: list[str] = []
    line = ""
    for word in words.split():
        longer = f"{line} {word}" if line else word
        if width(longer, size, bold=bold) <= room:
            line = longer
            continue
        if line:
            lines.append(line)
        line = word
        while len(line) > 1 and width(line, size, bold=bold) > room:
            end = len(line) - 1
            while end > 1 and width(line[:end], size, bold=bold) > room:
                end -= 1
            lines.append(line[:end])
            line = line[end:]
    return [*lines, line] if line else lines


def note(
    ax: Axes, words: str, at: tuple[float, float], off: tuple[float, float], preset: Preset,
    **look: Any,
) -> None:  # fmt: skip
    """Write the title of an axis, so many points off a place that is a fraction of the axes."""
    look |= {"color": preset.chrome.muted, "size": preset.small}
    ax.annotate(words, at, off, "axes fraction", "offset points", **look)


def label(token: str, limit: int = 24) -> str:
    """Return a token as every picture on screen shows it."""
    return plain_token(xml_safe(token), limit)


def xml_safe(words: str) -> str:
    """Replace the code points that XML does not allow."""
    return re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]", "\ufffd", words)
