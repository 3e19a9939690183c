"""Settings of the Tokens page, all of them in its link."""

from __future__ import annotations

import streamlit as st

from figures.tokens import ADDED
from transformer.measures.vocabulary import piece_length
from transformer.trace.embeddings import Side
from ui.core import url_state
from ui.core.url_state import Param
from ui.core.view import View
from ui.tokens.views import MOST_CUTS, Reading

SIDES = ("source", "translation")

SIDE: Param[str] = Param("tokens_of", url_state.one_of(SIDES), "source")
#: Id of the selected token; None for `default_token`.
TOKEN: Param[int | None] = Param("token", url_state.whole(0, 9_999_999), None)
CUT: Param[int] = Param("cut", url_state.whole(1, MOST_CUTS), 1)
DROPOUT: Param[float] = Param("merge_dropout", url_state.number(0, 1), 0.1)
CUT_SEED: Param[int] = Param("cut_seed", url_state.whole(0, 9_999), 0)
FIND: Param[str] = Param("find", str, "")
COUNT: Param[int] = Param("neighbours", url_state.whole(3, 30), 10)
SHOWN: Param[str] = Param("vectors", url_state.one_of(ADDED), "both")
BACKGROUND: Param[int] = Param("background", url_state.whole(0, 2_000), 0)

ALL: tuple[Param[object], ...] = (
    SIDE, TOKEN, CUT, DROPOUT, CUT_SEED, FIND, COUNT, SHOWN, BACKGROUND,
)  # type: ignore[assignment]  # fmt: skip

_SEEN = "headlight_tokens_of"


def forget_stale(view: View) -> None:
    """Reset choices that belonged to another sentence or vocabulary."""
    now = {
        "checkpoint": view.checkpoint,
        "text": (
            view.sentence,
            url_state.get(SIDE),
            url_state.get(DROPOUT),
            url_state.get(CUT_SEED),
        ),
    }
    before = st.session_state.setdefault(_SEEN, now)
    if before["checkpoint"] != now["checkpoint"] and not url_state.arrived(TOKEN):
        url_state.forget(TOKEN)
    if before != now and not url_state.arrived(CUT):
        url_state.forget(CUT)
    st.session_state[_SEEN] = now


def side_now() -> Side:
    """Return the chosen text."""
    return "source" if url_state.get(SIDE) == "source" else "translation"


def choose_token(index: int) -> None:
    """Select the token with this id."""
    url_state.put(TOKEN, index)


def choose_cut(number: int) -> None:
    """Choose a segmentation by its number, from 0."""
    url_state.put(CUT, number + 1)


def token_now(reading: Reading, vocab_size: int) -> int:
    """Return the selected token, else the default."""
    chosen = url_state.get(TOKEN)
    if chosen is not None and chosen < vocab_size:
        return chosen
    return default_token(reading)


def default_token(reading: Reading) -> int:
    """Return the first of the longest pieces in the vocabulary, else the first piece."""
    known = [
        position
        for position in range(len(reading.ids))
        if position not in reading.special and position not in reading.unknown
    ]
    position = max(known, key=lambda at: piece_length(reading.pieces[at]), default=0)
    return reading.ids[position]
