"""The choice of tokens or whole words, shared by all pages that show attention."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import streamlit as st

from transformer.measures.words import WORD_RULE, Groups, group_labels, word_groups
from ui.core import url_state
from ui.core.url_state import Param

#: The unit of a map's rows and columns.
UNITS: Param[str] = Param("units", url_state.one_of(("tokens", "words")), "tokens")

_KEY = "units_widget"


def units_control() -> str:
    """Draw the switch, with the rule as its help text; return "tokens" or "words"."""
    url_state.show(UNITS)
    wanted = url_state.get(UNITS) == "words"
    if st.session_state.get(_KEY) != wanted:
        st.session_state[_KEY] = wanted
    st.toggle("Whole words", key=_KEY, on_change=_store, help=WORD_RULE)
    return url_state.get(UNITS)


def in_units(
    tokens: Sequence[str], special: Collection[int] = ()
) -> tuple[tuple[str, ...], Groups | None]:
    """Return one axis in the chosen units.

    Returns: its labels, and the groups for `transformer.measures.words.merge`, None for tokens.
    """
    if url_state.get(UNITS) == "tokens":
        return tuple(tokens), None
    groups = word_groups(tokens, special)
    return group_labels(tokens, groups), groups


def _store() -> None:
    url_state.put(UNITS, "words" if st.session_state[_KEY] else "tokens")
