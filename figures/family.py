"""Figures of the models that followed: what they expect, and where they look for a source."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np

from figures.charts import Drawn, accented, named_bars, points, quiet, tips
from figures.labels import plain_token
from figures.palette import Theme
from transformer.types import Floats

_BAR = 28  # px


def candidates(
    tokens: Sequence[str], probabilities: Floats, theme: Theme, *, actual: str = ""
) -> Drawn:
    """Draw the most probable tokens at one place as bars, best first.

    Args:
        tokens, probabilities: [K], 0 to 1.
        actual: the token that stands there, which gets the accent; "" for none.
    """
    rows = [
        {"name": f"{rank}  {plain_token(token)}", "value": float(value), "own": token == actual}
        for rank, (token, value) in enumerate(zip(tokens, probabilities, strict=True), start=1)
    ]
    x = alt.X("value:Q", title="probability", axis=alt.Axis(format="%", tickCount=4))
    return named_bars(
        rows, x, theme, colour=accented("datum.own", theme), written=".1%",
        height=_BAR * len(rows),
        hover=tips(("name:N", "", "token"), ("value:Q", ".4f", "probability")),
    )  # fmt: skip


def expected(tokens: Sequence[str], probabilities: Floats, theme: Theme, *, chosen: int) -> Drawn:
    """Draw how probable each token of a text was to the model, in the text's order.

    Args:
        tokens, probabilities: [n]; NaN where nothing is known.
        chosen: the place that gets the accent.
    """
    rows = [
        {"place": f"{place}  {plain_token(token)}", "chosen": place - 1 == chosen,
         "probability": None if np.isnan(value) else float(value)}
        for place, (token, value) in enumerate(zip(tokens, probabilities, strict=True), start=1)
    ]  # fmt: skip
    chart = points(rows).mark_bar().encode(
        x=alt.X("place:N", sort=None, title=None, axis=alt.Axis(labelAngle=-45, labelLimit=120)),
        y=alt.Y(
            "probability:Q", title="probability", axis=alt.Axis(format="%", tickCount=3),
            scale=alt.Scale(domain=[0, 1]),
        ),
        color=accented("datum.chosen", theme),
        tooltip=tips("place:N", ("probability:Q", ".4f")),
    )  # fmt: skip
    return quiet(chart, theme, height=10 * _BAR)
