"""A sentence in pieces, and its other segmentations; click a piece or segmentation to choose it.

Token text travels as JSON and becomes `textContent`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from figures.labels import show_token
from figures.palette import THEMES, categorical
from ui.components.packing import Component, fits, labels

Mark = Literal["", "byte", "unknown", "special"]

#: The number of tints that words alternate between.
_TINTS = 5

#: Longest piece written in full; the rest is in its tooltip.
_LONGEST = 28


@dataclass(frozen=True)
class Piece:
    """One piece on screen."""

    piece: str  # as in the vocabulary; an unknown one as typed
    id: int  # its id
    word: int  # index of its word, from 0
    mark: Mark = ""  # its special role, if any
    score: str = ""  # its log-probability, or "" if the vocabulary has none
    note: str = ""  # shown on hover


@dataclass(frozen=True)
class Cut:
    """One row of the list of segmentations."""

    label: str  # in front of it ("0.12")
    share: float | None  # 0..1, the length of its bar; None for no bar
    #: the parts segmented differently, each a tuple of pieces; none for the first row
    stretches: tuple[tuple[str, ...], ...]
    places: tuple[str, ...] = ()  # where each stretch is, "" if its text occurs once
    text: str = ""  # shown if there are no stretches
    note: str = ""  # for screen readers


def pieces_component(
    pieces: Sequence[Piece], changed: Sequence[tuple[str, str]], *, chosen: int, label: str
) -> Component[int]:
    """Return a segmentation, large, each piece over its id.

    Args:
        changed: stretches of text that normalisation replaced, (before, after).
        chosen: the id to outline at every occurrence.
        label: for screen readers.
    """
    shown = [
        {
            **vars(each), "piece": show_token(each.piece, _LONGEST),
            "whole": show_token(each.piece, 400), "note": _plain(each.note),
        }
        for each in pieces
    ]  # fmt: skip
    header = {"pieces": shown, "changed": [[*map(_plain, both)] for both in changed]}
    return _component(header, chosen, label, 1 + max((each.id for each in pieces), default=0))


def cuts_component(cuts: Sequence[Cut], *, chosen: int, label: str) -> Component[int]:
    """Return a list of segmentations and what differs in them; `chosen` counts from 0."""
    rows = [vars(cut) | {"stretches": [labels(part, _LONGEST) for part in cut.stretches]}
            for cut in cuts]  # fmt: skip
    return _component({"cuts": rows}, chosen, label, len(cuts))


def _component(header: dict[str, Any], chosen: int, label: str, length: int) -> Component[int]:
    tints = {theme: categorical(_TINTS, theme) for theme in THEMES}
    header |= {"label": label, "tints": tints}
    return Component(
        "cut", header, choice=chosen,
        parse=lambda reported: reported if fits(reported, range(length)) else None,
    )  # fmt: skip


def _plain(text: str) -> str:
    return show_token(text, 120) if text else ""
