"""A sentence in a row: words or tokens, their log-probabilities, what differs underlined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from figures.labels import show_token
from ui.components.packing import pack


def strip_message(
    tokens: Sequence[str],
    log_probs: Sequence[float],
    differing: Sequence[int] = (),
    *,
    label: str,
    parts_at: int | None = None,
    one_line: bool = False,
    lead: str = "",
) -> bytes:
    """The message.

    Args:
        tokens: any text.
        log_probs: one a token, in nats; or nothing, for a text that nobody predicted.
        differing: positions to underline.
        label: what a screen reader calls the row.
        parts_at: the position to mark as the first that differs.
        lead: stands in front, as a name of the row.
        one_line: keep to one line that scrolls sideways, opened where the texts part.

    Raises: `ValueError` where there is not one number a token.
    """
    if log_probs and len(log_probs) != len(tokens):
        raise ValueError(f"{len(log_probs)} log-probabilities for {len(tokens)} tokens")
    marked = set(differing)
    header: dict[str, Any] = {
        "label": label,
        "tokens": [show_token(token, 28) for token in tokens],
        "log_probs": [round(max(float(value), -1e6), 4) for value in log_probs],
        "differing": [at in marked for at in range(len(tokens))],
        "parting": -1 if parts_at is None else parts_at,
        "line": one_line,
        "lead": lead,
    }
    return pack(header, b"")
