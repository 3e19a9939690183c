"""A sentence in pieces, and other ways to cut it; click a piece or a cut to choose it.

`sentence_pieces` shows one cut large, each piece over its id; `other_cuts` lists further ones and
only what is different in them. Token text travels as JSON and becomes `textContent`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import streamlit as st

from figures.labels import show_token
from figures.palette import THEMES, categorical
from ui.components.packing import component, pack

Mark = Literal["", "byte", "unknown", "special"]

#: Words take turns with this many tints.
_TINTS = 5

#: Longest piece that is written out; what is cut off stands in its tooltip.
_LONGEST = 28

_component = component("cut")


@dataclass(frozen=True)
class Piece:
    """One piece on screen.

    Attributes:
        piece: as the vocabulary writes it; an unknown one as it was typed.
        id: its number.
        word: which word it belongs to, 0, 1, ...
        mark: what is special about it.
        score: its log-probability, or "" where the vocabulary has none.
        note: said about it when it is pointed at.
    """

    piece: str
    id: int
    word: int
    mark: Mark = ""
    score: str = ""
    note: str = ""


@dataclass(frozen=True)
class Cut:
    """One row of other cuts.

    Attributes:
        label: in front of it ("0.12").
        share: 0..1, the length of its bar; None draws none.
        stretches: what is cut differently, each a tuple of pieces; none for the first cut.
        places: where each stretch stands, "" where its text is there once.
        text: in place of the stretches, where there are none.
        note: for screen readers.
    """

    label: str
    share: float | None
    stretches: tuple[tuple[str, ...], ...]
    places: tuple[str, ...] = ()
    text: str = ""
    note: str = ""


def sentence_pieces(
    pieces: Sequence[Piece],
    changed: Sequence[tuple[str, str]],
    *,
    chosen: int,
    on_choose: Callable[[int], None],
    label: str,
    key: str,
) -> None:
    """Show pieces in their order and report the id of the one that is clicked.

    Args:
        changed: stretches of text that normalisation replaced, (before, after).
        chosen: the id to outline, wherever it stands.
    """
    most = max((each.id for each in pieces), default=0)
    _mount(_pieces_header(pieces, changed, chosen, label), key, most, on_choose)


def still_pieces(
    pieces: Sequence[Piece], changed: Sequence[tuple[str, str]], *, chosen: int, label: str
) -> bytes:
    """The message of `sentence_pieces`, for a page without a server."""
    return pack(_pieces_header(pieces, changed, chosen, label), b"")


def other_cuts(
    cuts: Sequence[Cut],
    *,
    chosen: int,
    on_choose: Callable[[int], None],
    label: str,
    key: str,
) -> None:
    """List cuts and report the number, from 0, of the one that is clicked."""
    rows = [
        asdict(cut)
        | {"stretches": [[show_token(p, _LONGEST) for p in part] for part in cut.stretches]}
        for cut in cuts
    ]
    header = {
        "kind": "cuts", "label": label, "cuts": rows, "chosen": chosen, "tints": _tints()
    }  # fmt: skip
    _mount(header, key, len(cuts) - 1, on_choose)


def parse_choice(reported: Any, most: int) -> int | None:
    """The number that the browser reports, or None where it is not one from 0 to `most`."""
    if not isinstance(reported, int) or isinstance(reported, bool) or not 0 <= reported <= most:
        return None
    return reported


def _pieces_header(
    pieces: Sequence[Piece], changed: Sequence[tuple[str, str]], chosen: int, label: str
) -> dict[str, Any]:
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


def _mount(header: dict[str, Any], key: str, most: int, on_choose: Callable[[int], None]) -> None:
    def changed() -> None:
        number = parse_choice(st.session_state[key].get("chosen"), most)
        if number is not None:
            on_choose(number)

    _component(key=key, data=pack(header, b""), on_chosen_change=changed)


def _labels(piece: str) -> dict[str, str]:
    return {"piece": show_token(piece, _LONGEST), "whole": show_token(piece, 400)}


def _plain(text: str) -> str:
    return show_token(text, 120) if text else ""
