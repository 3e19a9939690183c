"""A sentence in pieces, and its other segmentations; click a piece or segmentation to choose it.

`mount.sentence_pieces` shows one segmentation large, each piece over its id; `mount.other_cuts`
lists others and only what differs in them. Token text travels as JSON and becomes `textContent`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from figures.labels import show_token
from figures.palette import THEMES, categorical
from ui.components.packing import pack

Mark = Literal["", "byte", "unknown", "special"]

#: The number of tints that words alternate between.
_TINTS = 5

#: Longest piece written in full; the rest is in its tooltip.
_LONGEST = 28


@dataclass(frozen=True)
class Piece:
    """One piece on screen.

    Attributes:
        piece: as in the vocabulary; an unknown one as typed.
        id: its id.
        word: index of its word, from 0.
        mark: its special role, if any.
        score: its log-probability, or "" if the vocabulary has none.
        note: shown on hover.
    """

    piece: str
    id: int
    word: int
    mark: Mark = ""
    score: str = ""
    note: str = ""


@dataclass(frozen=True)
class Cut:
    """One row of the list of segmentations.

    Attributes:
        label: in front of it ("0.12").
        share: 0..1, the length of its bar; None for no bar.
        stretches: the parts segmented differently, each a tuple of pieces; none for the first row.
        places: where each stretch is, "" if its text occurs once.
        text: shown if there are no stretches.
        note: for screen readers.
    """

    label: str
    share: float | None
    stretches: tuple[tuple[str, ...], ...]
    places: tuple[str, ...] = ()
    text: str = ""
    note: str = ""


def still_pieces(
    pieces: Sequence[Piece], changed: Sequence[tuple[str, str]], *, chosen: int, label: str
) -> bytes:
    """Return the message of the pieces for an offline page."""
    return pack(pieces_header(pieces, changed, chosen, label), b"")


def parse_choice(reported: Any, most: int) -> int | None:
    """Return the reported number, or None if it is not from 0 to `most`."""
    if not isinstance(reported, int) or isinstance(reported, bool) or not 0 <= reported <= most:
        return None
    return reported


def cuts_header(cuts: Sequence[Cut], chosen: int, label: str) -> dict[str, Any]:
    """Return the header of a list of segmentations."""
    rows = [
        asdict(cut)
        | {"stretches": [[show_token(p, _LONGEST) for p in part] for part in cut.stretches]}
        for cut in cuts
    ]
    return {"kind": "cuts", "label": label, "cuts": rows, "chosen": chosen, "tints": _tints()}


def pieces_header(
    pieces: Sequence[Piece], changed: Sequence[tuple[str, str]], chosen: int, label: str
) -> dict[str, Any]:
    """Return the header of a sentence in pieces."""
    shown = [asdict(each) | _labels(each.piece) | {"note": _plain(each.note)} for each in pieces]
    return {
        "kind": "pieces",
        "label": label,
        "pieces": shown,
        "changed": [[_plain(before), _plain(after)] for before, after in changed],
        "chosen": chosen,
        "tints": _tints(),
    }


def _tints() -> dict[str, list[str]]:
    return {theme: categorical(_TINTS, theme) for theme in THEMES}


def _labels(piece: str) -> dict[str, str]:
    return {"piece": show_token(piece, _LONGEST), "whole": show_token(piece, 400)}


def _plain(text: str) -> str:
    return show_token(text, 120) if text else ""
