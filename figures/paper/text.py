"""How wide text is before anything is drawn, so that it can be wrapped, shortened and boxed.

The widths are Helvetica's, which Arial and Liberation Sans share; letters with accents are as wide
as without, and anything else is taken to be as wide as it can be.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

#: What SVG and PNG are set in.
FONT = "Helvetica, Arial, Liberation Sans, DejaVu Sans, sans-serif"

_BOLD = 1.08  # of the regular widths, rounded up

# From the space to the tilde, in thousandths of the type size.
_WIDTHS = (
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278,
    556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556,
    1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778,
    667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556,
    333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556,
    556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
)  # fmt: skip
_OTHERS = {"→": 1000, "…": 1000, "−": 584, "·": 278, "√": 549, "“": 333, "”": 333, "’": 222}


def width_of(words: str, size: float, *, bold: bool = False) -> float:
    """Return the width of one line of text, in the unit of `size`."""
    return sum(map(_thousandths, words)) / 1000 * size * (_BOLD if bold else 1)


@lru_cache(maxsize=4096)
def _thousandths(character: str) -> int:
    if character in _OTHERS:
        return _OTHERS[character]
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    base = unicodedata.normalize("NFD", character)[0]
    if " " <= base <= "~":
        return _WIDTHS[ord(base) - 32]
    return 1000 if unicodedata.east_asian_width(character) in "WFA" else 800


def fitted(words: str, size: float, room: float, *, bold: bool = False) -> str:
    """Return the text, its end replaced by an ellipsis if it is wider than `room`."""
    room += 1e-6 * size  # a box made for this text is not too small by a rounding error
    if width_of(words, size, bold=bold) <= room:
        return words
    while words and width_of(words + "…", size, bold=bold) > room:
        words = words[:-1]
    return words.rstrip() + "…"


def wrapped(words: str, size: float, room: float, *, bold: bool = False) -> list[str]:
    """Return the text in lines no wider than `room`; a word that is wider is broken."""
    lines: list[str] = []
    line = ""
    for word in words.split():
        longer = f"{line} {word}" if line else word
        if width_of(longer, size, bold=bold) <= room:
            line = longer
            continue
        if line:
            lines.append(line)
        line = word
        while width_of(line, size, bold=bold) > room and len(line) > 1:
            end = next(
                n for n in range(len(line) - 1, 0, -1)
                if n == 1 or width_of(line[:n], size, bold=bold) <= room
            )  # fmt: skip
            lines.append(line[:end])
            line = line[end:]
    return [*lines, line] if line else lines
