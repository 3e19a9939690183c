"""A sentence in a row: words or tokens, log-probabilities, differences underlined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ui.components.packing import Component, finite, labels


def strip_component(
    tokens: Sequence[str],
    log_probs: Sequence[float],
    differing: Sequence[int] = (),
    *,
    label: str,
    parts_at: int | None = None,
    one_line: bool = False,
    lead: str = "",
) -> Component[None]:
    """Return the component.

    Args:
        tokens: any text.
        log_probs: one per token, in nats; or empty, for a text that was not predicted.
        differing: positions to underline.
        label: name of the row for screen readers.
        parts_at: the position to mark as the first difference.
        lead: name of the row, shown in front.
        one_line: use one line that scrolls sideways, opened at the first difference.

    Raises: `ValueError` if there is not one number per token.
    """
    if log_probs and len(log_probs) != len(tokens):
        raise ValueError(f"{len(log_probs)} log-probabilities for {len(tokens)} tokens")
    marked = set(differing)
    header: dict[str, Any] = {
        "label": label,
        "tokens": labels(tokens, 28),
        "log_probs": [*map(finite, log_probs)],
        "differing": [at in marked for at in range(len(tokens))],
        "parting": -1 if parts_at is None else parts_at,
        "line": one_line,
        "lead": lead,
    }
    return Component("strip", header)
