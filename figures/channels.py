"""Channels of Altair charts, made in a way that costs little.

What is not a channel object, such as "x:Q" or `alt.condition(...)`, Altair looks up in the whole
schema of Vega-Lite, a few milliseconds for each.
"""

from __future__ import annotations

from typing import Any


def either(test: str, yes: Any, no: Any) -> dict[str, Any]:
    """Return arguments of a value's channel that is `yes` where the test holds, else `no`.

    Args: test: a Vega expression, such as "datum.chosen".
    """
    return {"condition": {"test": test, "value": yes}, "value": no}
