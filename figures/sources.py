"""Chart of the shares of source and prefix in every predicted token."""

from collections.abc import Sequence

import altair as alt

from figures.charts import Drawn, coloured, points, quiet, tips
from figures.labels import plain_token
from figures.palette import CHROME, Theme
from transformer.types import Bools, Floats

_NAMES = ("source", "translation so far", "loose from the source")


def source_bars(tokens: Sequence[str], shares: Floats, loose: Bools, theme: Theme) -> Drawn:
    """Draw a bar for each token, split into source and prefix, and the source's curve.

    Args:
        tokens: [T], predicted tokens.
        shares: [T], of the source, 0 to 1.
        loose: [T], True for tokens with a mark.
    """
    chrome = CHROME[theme]
    rows = [
        {"token": f"{step} {plain_token(token)}", "part": part, "source": round(share, 4),
         "prefix": round(1 - share, 4), "low": low, "high": high, "loose": mark}
        for step, (token, share, mark) in enumerate(
            zip(tokens, shares.tolist(), loose.tolist(), strict=True), 1
        )
        for part, low, high in ((_NAMES[0], 0.0, share), (_NAMES[1], share, 1.0))
    ]  # fmt: skip
    axis = alt.Axis(labelAngle=-45, labelOverlap=len(tokens) > 40, ticks=False)
    x = alt.X("token:N", sort=None, title=None, axis=axis)
    y = alt.Y("low:Q", title="share", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(tickCount=3))
    base = points(rows).encode(x=x, tooltip=tips(
        "token:N", ("source:Q", ".2f"), ("prefix:Q", ".2f"),
    ))  # fmt: skip
    colour = coloured("part:N", _NAMES, (chrome.accent, chrome.rule, chrome.ink), orient="top",
                      symbolOpacity=1)  # fmt: skip
    bars = base.mark_bar(opacity=0.55).encode(y=y, y2="high:Q", color=colour)
    own = base.transform_filter(f"datum.part === '{_NAMES[0]}'")
    curve = own.mark_line(color=chrome.ink, strokeWidth=1.5).encode(y="source:Q")
    marks = (
        own.transform_filter("datum.loose").transform_calculate(part=f"'{_NAMES[2]}'")
        .mark_point(shape="triangle-down", filled=True, size=90, opacity=1, yOffset=-9)
        .encode(y="source:Q", color=colour)
    )  # fmt: skip
    return quiet(alt.layer(bars, curve, marks), theme, height=220)
