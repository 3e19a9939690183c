"""A sentence in pieces, and its other segmentations; click a piece or segmentation to choose it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from figures.labels import show_token
from figures.palette import THEMES, categorical
from ui.components.packing import Component, fits, labels

Mark = Literal["", "byte", "unknown", "special"]

#: Tints that words alternate between.
_TINTS = 5

#: Longest piece that is shown in full; the tooltip has the rest.
_LONGEST = 28


@dataclass(frozen=True)
class Piece:
    """One piece on screen."""

    piece: str  # as in the vocabulary, or as typed if unknown
    id: int  # vocabulary id
    word: int  # word index, from 0
    mark: Mark = ""  # special role, if any
    score: str = ""  # log-probability, or "" if the vocabulary has none
    note: str = ""  # tooltip


@dataclass(frozen=True)
class Cut:
    """One row in a list of segmentations."""

    label: str  # text in front ("0.12")
    share: float | None  # bar length, 0 to 1, or None to omit the bar
    #: pieces of the parts that are segmented differently, empty in the first row
    stretches: tuple[tuple[str, ...], ...]
    places: tuple[str, ...] = ()  # position per stretch, "" if its text occurs once
    text: str = ""  # text in place of stretches
    note: str = ""  # text for screen readers


def pieces_component(
    pieces: Sequence[Piece], changed: Sequence[tuple[str, str]], *, chosen: int, label: str
) -> Component[int]:
    """Return one large segmentation with ids below its pieces.

    Args:
        changed: text that normalisation replaced, as (before, after).
        chosen: id to outline at every occurrence.
        label: text for screen readers.
    """
    drawn = [
        {
            **vars(piece), "piece": show_token(piece.piece, _LONGEST),
            "whole": show_token(piece.piece, 400), "note": _plain(piece.note),
        }
        for piece in pieces
    ]  # fmt: skip
    header = {"pieces": drawn, "changed": [[*map(_plain, both)] for both in changed]}
    return _component(header, chosen, label, 1 + max((piece.id for piece in pieces), default=0))


def cuts_component(cuts: Sequence[Cut], *, chosen: int, label: str) -> Component[int]:
    """Return a component that lists segmentations and their differences; `chosen` counts from 0."""
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
