"""The choice of tokens or whole words, shared by all pages that show attention."""

from __future__ import annotations

import streamlit as st

from transformer.measures.words import WORD_RULE
from ui.core import url_state
from ui.core.url_state import Param
from ui.core.widgets import fill

#: The unit of a map's rows and columns.
UNITS: Param[str] = Param("units", url_state.one_of(("tokens", "words")), "tokens")

_KEY = "units_widget"


def units_control() -> str:
    """Draw the switch, with the rule as its help text; return "tokens" or "words"."""

    def store() -> None:
        url_state.put(UNITS, "words" if st.session_state[_KEY] else "tokens")

    url_state.show(UNITS)
    fill(_KEY, url_state.get(UNITS) == "words")
    st.toggle("Whole words", key=_KEY, on_change=store, help=WORD_RULE)
    return url_state.get(UNITS)
