"""Figures of the models that followed: what they expect, and where they look for a source."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np

from figures.charts import quiet
from figures.labels import plain_token
from figures.palette import CHROME, Theme
from transformer.types import Floats

_BAR = 28  # px


def candidates(
    tokens: Sequence[str], probabilities: Floats, theme: Theme, *, actual: str = ""
) -> alt.LayerChart:
    """Draw the most probable tokens at one place as bars, best first.

    Args:
        tokens, probabilities: [K], 0 to 1.
        actual: the token that stands there, which gets the accent; "" for none.
    """
    chrome = CHROME[theme]
    rows = [
        {"rank": rank, "token": f"{rank}  {plain_token(token)}", "probability": float(value),
         "shown": f"{100 * value:.1f}%", "own": token == actual}
        for rank, (token, value) in enumerate(zip(tokens, probabilities, strict=True), start=1)
    ]  # fmt: skip
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        y=alt.Y("token:N", sort=None, title=None, axis=alt.Axis(labelLimit=200)),
        x=alt.X("probability:Q", title="probability", axis=alt.Axis(format="%", tickCount=4)),
        tooltip=[alt.Tooltip("token:N"), alt.Tooltip("probability:Q", format=".4f")],
    )
    bars = base.mark_bar(height=_BAR * 0.7).encode(
        color=alt.condition("datum.own", alt.value(chrome.accent), alt.value(chrome.muted))
    )
    texts = base.mark_text(align="left", dx=4, fontSize=13, color=chrome.ink).encode(text="shown:N")
    return quiet((bars + texts).properties(height=_BAR * len(rows)), theme)  # type: ignore[no-any-return]


def expected(
    tokens: Sequence[str], probabilities: Floats, theme: Theme, *, chosen: int
) -> alt.Chart:
    """Draw how probable each token of a text was to the model, in the text's order.

    Args:
        tokens, probabilities: [n]; NaN where nothing is known.
        chosen: the place that gets the accent.
    """
    chrome = CHROME[theme]
    rows = [
        {"place": f"{place}  {plain_token(token)}", "chosen": place - 1 == chosen,
         "probability": None if np.isnan(value) else float(value)}
        for place, (token, value) in enumerate(zip(tokens, probabilities, strict=True), start=1)
    ]  # fmt: skip
    chart = alt.Chart(alt.InlineData(values=rows)).mark_bar().encode(
        x=alt.X("place:N", sort=None, title=None, axis=alt.Axis(labelAngle=-45, labelLimit=120)),
        y=alt.Y(
            "probability:Q", title="probability", axis=alt.Axis(format="%", tickCount=3),
            scale=alt.Scale(domain=[0, 1]),
        ),
        color=alt.condition("datum.chosen", alt.value(chrome.accent), alt.value(chrome.muted)),
        tooltip=[alt.Tooltip("place:N"), alt.Tooltip("probability:Q", format=".4f")],
    )  # fmt: skip
    return quiet(chart.properties(height=10 * _BAR), theme)  # type: ignore[no-any-return]
