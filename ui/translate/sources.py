"""Source or prefix: below the player, the origin of every predicted token.

Directions of Voita et al. (2021) in the shipped translators come from `directions.json`, which
`benchmarks/directions.py` writes.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st

from figures.labels import code, percent, plain_token, signed
from figures.tokens import source_bars
from transformer.attribution.edges import Mix, loose
from transformer.trace.records import Trace
from transformer.types import Bools
from ui.core.glossary import linked
from ui.core.layout import current_theme, draw_chart
from ui.core.view import View
from ui.export.download import download_below
from ui.translate.exhibits import mix_of, source_or_prefix
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
    if name in MEASURED:
        trained = "" if view.entry.updates is None and not view.entry.ref.edits else ", as trained"
        st.markdown(
            f"**Over {MEASURED[name]['sentences']} typed sentences, with 95% intervals"
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


#: Statement, sign of its mean where it holds, and quantity, by name in the file.
_STATEMENTS = {
    "falls": ("The source's share falls along the translation", -1, "rank correlation with step"),
    "drops": ("It drops once more at the end, for `</s>`", -1, "share"),
    "spreads": ("It spreads over more source tokens on the way", 1, "rank correlation with step"),
    "wrong, next": ("A wrong first token lowers it at the next three steps", -1, "share"),
    "wrong, later": ("A wrong first token lowers it at the steps after those", -1, "share"),
    "turns": ("In training it rises and falls, not one way", 1, "share"),
}


#: Directions and counts by checkpoint.
MEASURED: dict[str, Any] = json.loads(
    Path(__file__).with_name("directions.json").read_text("utf-8")
)


def table(names: Iterable[str]) -> str:
    """Return the directions in these checkpoints as a Markdown table."""
    names = list(names)
    heading = ["Direction in Voita et al. (2021)", *(names if names[1:] else ["On this model"])]
    lines = [heading, ["---"] * len(heading)]
    for key, (statement, sign, quantity) in _STATEMENTS.items():
        results = [MEASURED[name]["directions"].get(key) for name in names]
        if any(results):
            verdicts = (_verdict(result, sign) for result in results)
            lines.append([f"{statement} ({quantity})", *verdicts])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _verdict(result: dict[str, float] | None, sign: int) -> str:
    if result is None:
        return "not measured"
    low, high = (round(result[end], 3) for end in ("low", "high"))
    verdict = "*holds here*" if sign * low > 0 and sign * high > 0 else "*does not*"
    return f"{verdict}: {signed(result['mean'], 3)} ({signed(low, 3)} to {signed(high, 3)})"


def marked_in_words(name: str) -> str:
    """Return how often tokens near the start are loose, with and without a wrong first token."""
    loose = MEASURED[name]["loose"]
    return (
        f"In the three tokens after the first, {percent(loose['own'])} of its own translations of "
        f"typed sentences have a loose token, and {percent(loose['wrong'])} after a wrong first "
        "token."
    )
