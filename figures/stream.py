"""Charts of the residual stream and its feed-forward networks."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from figures.charts import Drawn, accented, points, quiet, tips
from figures.labels import plain_token
from figures.palette import CHROME, Theme, as_altair, attention_table
from transformer.trace.records import FeedForwardReading, StackStream
from transformer.types import Floats

_BLOCKS = {"self": "self-attention", "cross": "cross-attention", "feed_forward": "feed-forward"}


def block_labels(stream: StackStream) -> tuple[str, ...]:
    """Return the block names of a stack, such as "1 self-attention"."""
    return tuple(
        f"{layer} {_BLOCKS[block]}"
        for layer in range(1, len(stream.hidden) + 1)
        for block in stream.blocks
    )


def promoted_bars(reading: FeedForwardReading, predicted: str, theme: Theme) -> Drawn:
    """Draw the tokens whose logits a decoder network raises and lowers most.

    Args: predicted: the token with the accent colour.

    Raises: `ValueError` for an encoder network, which has no logits.
    """
    if reading.promoted is None or reading.lowered is None:
        raise ValueError("an encoder network adds nothing to the logits")
    raised = zip(reading.promoted.tokens, reading.promoted.logits, strict=True)
    lowered = [*zip(reading.lowered.tokens, reading.lowered.logits, strict=True)][:4]
    rows = [
        {"token": plain_token(token, 24), "logit": round(float(value), 4),
         "predicted": token == predicted}
        for token, value in (*raised, *reversed(lowered))
    ]  # fmt: skip
    colour = accented("datum.predicted", theme)
    return _bars(rows, "logit", "added to the logit", theme, label="token", colour=colour)


def neuron_bars(reading: FeedForwardReading, theme: Theme) -> Drawn:
    """Draw the most active neurons, with the tokens that they promote."""
    rows: list[dict[str, Any]] = []
    for i, neuron in enumerate(reading.neurons):
        tokens = reading.neuron_promoted[i].tokens[:4] if reading.neuron_promoted else ()
        rows.append({
            "neuron": f"neuron {int(neuron) + 1}", "length": round(float(reading.sizes[i]), 4),
            "activation": round(float(reading.inner[neuron]), 4),
            "tokens": "  ".join(plain_token(token, 10) for token in tokens),
        })  # fmt: skip
    colour = alt.ColorValue(CHROME[theme].muted)
    name = "activation"
    return _bars(rows, name, name, theme, label="neuron", note="tokens", colour=colour)


def share_map(shares: Floats, blocks: Sequence[str], tokens: Sequence[str], theme: Theme) -> Drawn:
    """Draw block shares by token, [L K, n], the last block at the top."""
    columns = [f"{j} {plain_token(token, 14)}" for j, token in enumerate(tokens, start=1)]
    rows = [
        {"block": blocks[i], "token": columns[j], "share": round(float(value), 4)}
        for (i, j), value in np.ndenumerate(shares)
    ]
    limit = max(0.01, float(shares.max()))
    chart = (
        points(rows)
        .mark_rect(stroke=CHROME[theme].surface, strokeWidth=1)
        .encode(
            x=alt.X("token:N", sort=columns, title=None,
                    axis=alt.Axis(orient="top", labelAngle=-45, ticks=False, domain=False)),
            y=alt.Y("block:N", sort=list(reversed(blocks)), title=None,
                    axis=alt.Axis(ticks=False, domain=False, labelLimit=200)),
            color=alt.Color(
                "share:Q", scale=alt.Scale(
                    domain=[0, limit], range=as_altair(attention_table(theme))
                ),
                legend=alt.Legend(title="share", format=".0%", gradientLength=120, tickCount=3),
            ),
            tooltip=tips("block:N", "token:N", ("share:Q", ".1%")),
        )
    )  # fmt: skip
    return quiet(chart, theme, width="container", height=22 * len(blocks))


def norm_lines(
    norms: Floats, blocks: Sequence[str], tokens: Sequence[str], chosen: int, theme: Theme
) -> Drawn:
    """Draw the stream's norms [1 + L K, n], at the input and after each block.

    Args: chosen: position of the highlighted token.
    """
    chrome, steps = CHROME[theme], ["input", *blocks]
    rows = [
        {"block": steps[i], "token": f"{j + 1} {plain_token(tokens[j], 14)}", "j": j,
         "length": round(float(value), 4)}
        for (i, j), value in np.ndenumerate(norms)
    ]  # fmt: skip
    base = points(rows).encode(
        x=alt.X("block:N", sort=steps, title=None,
                axis=alt.Axis(labelAngle=-35, labelLimit=200, grid=False)),
        y=alt.Y("length:Q", title="length", scale=alt.Scale(zero=False),
                axis=alt.Axis(tickCount=4)),
        detail=alt.Detail("token:N"),
        tooltip=tips("token:N", "block:N", ("length:Q", ".2f")),
    )  # fmt: skip
    faint = base.mark_line(strokeWidth=1, opacity=0.35, color=chrome.muted)
    bold = base.transform_filter(f"datum.j === {int(chosen)}").mark_line(
        strokeWidth=2.5, color=chrome.accent, point=alt.OverlayMarkDef(size=30, color=chrome.accent)
    )
    return quiet(alt.layer(faint, bold), theme, width="container", height=240)


def _bars(
    rows: Sequence[dict[str, Any]], value: str, title: str, theme: Theme, *, label: str,
    colour: Any, note: str = "",
) -> Drawn:  # fmt: skip
    chrome = CHROME[theme]
    # Rows with equal labels differ in invisible characters.
    named = [{**row, "name": f"{row[label]}{chr(0x200B) * i}"} for i, row in enumerate(rows)]
    low, high = (float(f(0.0, *(row[value] for row in rows))) for f in (min, max))
    noted = bool(note) and any(row[note] for row in rows)
    scale = alt.Scale(domain=[low, (2.6 if noted else 1) * high or 1], nice=not noted)
    visible: dict[str, Any] = dict.fromkeys(("grid", "labels", "ticks", "domain"), not noted)
    axis = alt.Axis(tickCount=5, **visible)
    base = points(named).encode(
        y=alt.Y("name:N", sort=None, title=None, scale=alt.Scale(paddingInner=0.25),
                axis=alt.Axis(ticks=False, domain=False, labelLimit=160, grid=False)),
        x=alt.X(f"{value}:Q", title=None if noted else title, scale=scale, axis=axis),
        tooltip=tips(*(f"{name}:N" for name in rows[0] if name not in ("name", "predicted"))),
    )  # fmt: skip
    layers = [base.mark_bar(cornerRadius=2).encode(color=colour)]
    if noted:
        text = base.mark_text(align="left", dx=8, fontSize=12.5, color=chrome.ink)
        layers.append(text.encode(text=f"{note}:N"))
    return quiet(alt.layer(*layers), theme, width="container", height=24 * len(rows))
