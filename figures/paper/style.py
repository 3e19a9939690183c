"""Fonts and colours of figures on paper, text widths, and pages measured in points."""

import logging
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import Any
from unicodedata import category

from cycler import cycler
from matplotlib import rc_context, rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontEntry, FontProperties, fontManager
from matplotlib.ft2font import FT2Font
from matplotlib.text import Text
from matplotlib.textpath import text_to_path
from matplotlib.transforms import Affine2D

from figures.labels import plain_token
from figures.palette import categorical
from figures.paper.presets import POINTS, Preset

#: Font families in order of preference; other installed families follow. DejaVu Sans is part of
#: matplotlib and has Greek, Cyrillic, Hebrew and Arabic.
FAMILIES = (
    "Source Sans 3", "Helvetica", "Arial", "Liberation Sans", "DejaVu Sans",
    "Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans JP", "Noto Sans SC", "Source Han Sans",
    "WenQuanYi Zen Hei", "WenQuanYi Micro Hei", "Hiragino Sans", "PingFang SC", "Yu Gothic",
    "Microsoft YaHei", "Apple SD Gothic Neo", "Malgun Gothic", "Noto Sans KR",
    "Droid Sans Fallback", "Noto Sans Arabic", "Noto Naskh Arabic", "Geeza Pro", "Noto Sans Hebrew",
    "Noto Sans Devanagari", "Noto Sans Bengali", "Noto Sans Tamil", "Noto Sans Thai", "Nirmala UI",
    "Noto Emoji", "Symbola", "Segoe UI Emoji", "Noto Sans Symbols2", "Arial Unicode MS",
)  # fmt: skip
#: Source Sans as on the pages, from the folder `fonts`: in PNG and PDF. An SVG is drawn with the
#: fonts of its viewer, most of which are wider.
OWN = "Headlight Sans"
SPACING = 1.3  # line spacing in type sizes

#: Fonts whose glyphs are boxes or empty.
_EMPTY = re.compile("Last Resort|NonUnicode|Color Emoji|Blank")
_UNSEEN = ("Cc", "Cf", "Zs")  # controls, direction marks and spaces
_family_of: dict[str, str | None] = {}  # the first family with this character, or None
_adopted: list[str] = []  # families beyond `FAMILIES` that recent figures needed
_MOST_ADOPTED = 8  # all threads hold the files of all families open

# `missing` names characters that no font has; matplotlib writes a line on the console for each.
warnings.filterwarnings("ignore", "Glyph .* missing from font")
logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)


@contextmanager
def style(preset: Preset, *, own: bool = True) -> Iterator[None]:
    """Set matplotlib's parameters for drawing and saving a figure, `own` in the app's font."""
    chrome = preset.chrome
    look: dict[Any, object] = {
        "axes.edgecolor": chrome.rule, "axes.facecolor": "none", "axes.labelcolor": chrome.muted,
        "axes.labelsize": preset.small, "axes.linewidth": 0.5, "axes.axisbelow": True,
        "axes.prop_cycle": cycler(color=categorical(16, preset.theme)),
        "grid.color": chrome.rule, "grid.linewidth": 0.5, "text.color": chrome.ink,
        "xtick.major.size": 0, "ytick.major.size": 0,
        "xtick.labelcolor": chrome.ink, "ytick.labelcolor": chrome.ink,
        "font.family": [*[OWN] * own, *_families(), "sans-serif"],
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
def _fonts() -> dict[str, FontEntry]:
    """Return a font per installed family, `FAMILIES` first, without `OWN`."""
    for path in Path(__file__).with_name("fonts").glob("*.ttf"):
        fontManager.addfont(path)
    order = {name: at for at, name in enumerate(FAMILIES)}
    fonts = sorted(fontManager.ttflist, key=lambda font: (
        order.get(font.name, len(order)), font.name, font.style == "normal", font.weight == 400
    ))  # fmt: skip
    return {font.name: font for font in fonts if font.name != OWN and not _EMPTY.search(font.name)}


def _families() -> tuple[str, ...]:
    return (*(name for name in FAMILIES if name in _fonts()), *_adopted)


def missing(figure: Figure) -> str:
    """Return the visible characters of a figure that none of its fonts has, in order.

    Later figures use another installed family with these characters, if there is one.
    """
    words = dict.fromkeys("".join(text.get_text() for text in figure.findobj(Text)))
    used, new = _families(), {character for character in words if character not in _family_of}
    _family_of.update(dict.fromkeys(new))
    for name, entry in _fonts().items():
        if not (left := {character for character in new if _family_of[character] is None}):
            break
        font = FT2Font(entry.fname, face_index=entry.index)
        _family_of.update({letter: name for letter in left if font.get_char_index(ord(letter))})
    visible = (c for c in words if category(c) not in _UNSEEN and c < "\U000e0000")
    absent = "".join(c for c in visible if _family_of[c] not in used)
    if more := {family for c in absent if (family := _family_of[c])}:
        _adopted[:] = [*_adopted, *sorted(more)][-_MOST_ADOPTED:]
    return absent


class Sheet:
    """A figure with contents placed in points, from the left margin and the top."""

    def __init__(self, preset: Preset, height: float) -> None:
        self.figure = Figure((preset.width, height / POINTS), dpi=POINTS)
        self.margin, (self.wide, self.tall) = preset.margin, self.figure.bbox.size
        #: from points to the figure, y upwards
        self.points = Affine2D().scale(1 / self.wide, 1 / self.tall) + self.figure.transFigure

    def axes(self, x: float, y: float, width: float, height: float) -> Axes:
        """Add axes."""
        x, y = (x + self.margin) / self.wide, 1 - (y + height) / self.tall
        return self.figure.add_axes((x, y, width / self.wide, height / self.tall))

    def write(self, lines: Sequence[str], y: float, size: float, x: float = 0, **look: Any) -> None:
        """Write lines from the top down."""
        for index, line in enumerate(lines):
            middle = 1 - (y + (index + 0.5) * SPACING * size) / self.tall
            self.figure.text((x + self.margin) / self.wide, middle, line, size=size,
                             va="center_baseline", **look)  # fmt: skip


def width(words: str | Sequence[str], size: float, *, bold: bool = False) -> float:
    """Return the width in points of a line of text, or of the widest of several lines."""
    lines = [words] if isinstance(words, str) else words
    families = tuple(rcParams["font.family"])
    return size * max((_width(line, bold, families) for line in lines), default=0.0)


@lru_cache(maxsize=8192)
def _width(words: str, bold: bool, families: tuple[str, ...]) -> float:
    font = FontProperties(family=families, size=1, weight="bold" if bold else "normal")
    wide: float = text_to_path.get_text_width_height_descent(words, font, ismath=False)[0]
    return wide


def fitted(words: str, size: float, room: float, *, bold: bool = False) -> str:
    """Return text no wider than `room`; an ellipsis replaces the rest."""
    if width(words, size, bold=bold) <= room + 1e-6:
        return words
    while words and width(words + "…", size, bold=bold) > room:
        words = words[:-1]
    return words.rstrip() + "…"


def wrapped(words: str, size: float, room: float, *, bold: bool = False) -> list[str]:
    """Break text into lines no wider than `room`, within words if necessary.

    matplotlib's own `wrap` breaks at the figure's edge only, and between words only.
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
    """Return a token as in all pictures on screen."""
    return plain_token(xml_safe(token), limit)


def xml_safe(words: str) -> str:
    """Replace the code points that XML does not allow."""
    return re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]", "\ufffd", words)
