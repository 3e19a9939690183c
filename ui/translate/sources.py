"""Source or prefix: below the player, the origin of every predicted token."""

import numpy as np
import streamlit as st

from figures.labels import code, plain_token
from figures.tokens import source_bars
from transformer.attribution.mixing import Mix, loose
from transformer.trace.records import Trace
from transformer.types import Bools
from ui.core.glossary import linked
from ui.core.layout import current_theme, draw_chart
from ui.core.view import View
from ui.export.download import download_below
from ui.translate.directions import marked_in_words, measured, table
from ui.translate.inside_exhibits import mix_of, source_or_prefix
from ui.work.desk import computed
from ui.work.results import Computation

#: Shares of source and prefix in every predicted token.
MIX: Computation[Mix] = Computation("source or prefix", (), mix_of)


def draw_sources(view: View, trace: Trace) -> None:
    """Draw the shares, and what holds of them over many sentences."""
    shares = computed(view, MIX).source_share
    marks = loose(shares)
    st.markdown("#### Source or prefix")
    chart, words = st.columns([5, 3], gap="large")
    text = _in_words(trace, marks)
    with chart:
        draw_chart(source_bars(trace.predicted_tokens, shares, marks, current_theme()),
                   f"Share of the source by token. {text}")  # fmt: skip
        st.markdown(text)
    with words:
        st.caption(linked(
            "The contributions of all layers, multiplied (ALTI+), split each prediction between "
            "the source and the translation so far. Shares compare tokens within a sentence; they "
            "do not say in absolute terms how much the model uses the source.",
            "ALTI+",
        ))  # fmt: skip
        download_below(st.container(), view, "source-or-prefix", source_or_prefix)
    name = view.entry.whole
    if name in measured():
        trained = "" if view.entry.updates is None and not view.entry.ref.edits else ", as trained"
        st.markdown(
            f"**Over {measured()[name]['sentences']} typed sentences, with 95% intervals"
            f"{trained}:**\n\n{table([name])}\n\n{marked_in_words(name)}"
        )


def _in_words(trace: Trace, marks: Bools) -> str:
    tokens = [code(plain_token(token)) for token in trace.predicted_tokens]
    if not marks.any():
        return "No token comes loose from the source."
    named = ", ".join(tokens[at] for at in np.flatnonzero(marks))
    return (
        f"Loose from the source: {named}. The share of the source is below two thirds of the "
        "median of this translation, its last token aside."
    )
