"""Family: models that kept one stack of the paper's blocks, and what changed since 2017."""

from __future__ import annotations

import streamlit as st

from ui.core import url_state
from ui.core.view import current_entries, current_view
from ui.core.widgets import choose_one, draw_explained
from ui.family.choice import PART, PARTS, ExpectsChoice, StacksChoice
from ui.family.stacks import draw_stacks
from ui.family.views import draw_changes, draw_expects
from ui.frame.pages import require_frame

require_frame()


def explain() -> None:
    """Explain who left out what."""
    st.markdown(
        "**GPT** (Radford et al. 2018) kept the decoder, without cross-attention: each token sees "
        "those before it, and the model learns to write the next one. **BERT** (Devlin et al. "
        "2019) kept the encoder: each token sees all others, and the model learns to fill in "
        "words that were hidden. **T5** (Raffel et al. 2020) kept both and replaced the positions "
        "by distances.\n\nThe models here are a thousandth of the size of those, and know "
        "everyday sentences only. The alignment error is AER over sentences of the European "
        "Parliament whose words people linked (lower is better); all heads of both models were "
        "scored alike, on the row that predicts a word."
    )


url_state.show(PART)
parts, more = st.columns([6, 1], vertical_alignment="center")
part = choose_one("Part", PART, PARTS, parts)
draw_explained(explain, more)
view, entries = current_view(), current_entries()
if part == "expects":
    ExpectsChoice.show()
    draw_expects(view, entries)
elif part == "stacks":
    StacksChoice.show()
    draw_stacks(view, entries)
else:
    draw_changes(view, entries)
