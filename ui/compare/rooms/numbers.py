"""What both sides are measured to be, and what each thinks of the other."""

from __future__ import annotations

from functools import partial

from figures.exhibit import file_stem
from ui.compare.maps.numbers import draw_numbers, make_numbers
from ui.compare.sides import CompareRoom, Download, Pair


def _draw(pair: Pair) -> Download:
    left, right = (side.trace for side in pair.sides)
    draw_numbers(pair.setup, left, right)
    return Download(partial(make_numbers, pair.setup), file_stem("compare numbers"))


ROOM = CompareRoom("numbers", _draw, follows=True)
