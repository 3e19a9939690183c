"""Figures of the models that followed: what they expect, and where they look for a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt
import numpy as np

from figures.charts import quiet
from figures.exhibit import Exhibit, Panel, Series, file_stem
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


def guesses_exhibit(
    tokens: Sequence[str],
    probabilities: Floats,
    places: Sequence[tuple[str, Sequence[str], Floats]],
    *,
    what: str,
    snippet: str,
) -> Exhibit:
    """Build the figure of what a model expects in a text.

    Args:
        tokens, probabilities: [n], of the text as it stands; NaN where a word is hidden.
        places: a title, tokens [K] and probabilities [K] for each place shown.
        what: one sentence on the figure.
        snippet: Python that defines `probabilities`.
    """
    numbered = tuple(f"{place} {token}" for place, token in enumerate(tokens, start=1))
    return Exhibit(
        name=file_stem("expected tokens"),
        title="What the model expects",
        caption=what,
        parts=(
            Series("the text as it stands", numbered, {"probability": probabilities},
                   "token", "probability", "bar"),
            *(
                Series(title, tuple(f"{rank} {each}" for rank, each in enumerate(best, start=1)),
                       {"probability": values}, "token", "probability", "bar")
                for title, best, values in places
            ),
        ),
        arrays={"probabilities": probabilities},
        snippet=snippet,
        columns=1,
    )  # fmt: skip


def source_exhibit(
    maps: Mapping[str, tuple[Floats, Sequence[str], Sequence[str]]], snippet: str
) -> Exhibit:
    """Build the figure of two models' looks into one source.

    Args:
        maps: by title, weights [T, S] with the names of rows and columns.
        snippet: Python that defines `two_stacks` and `one_stack`.
    """
    weights = [each for each, _, _ in maps.values()]
    return Exhibit(
        name=file_stem("one stack or two"),
        title="Where two translators look in one source",
        caption="Left, cross-attention of a model of two stacks; right, the part of a single "
        "stack's map that lies on the source, whose rows therefore sum to less than 1.",
        parts=tuple(
            Panel(title, each, tuple(rows), tuple(columns), "query: translation", "key: source")
            for title, (each, rows, columns) in maps.items()
        ),
        arrays=dict(zip(("two_stacks", "one_stack"), weights, strict=True)),
        snippet=snippet,
        columns=len(maps),
    )
