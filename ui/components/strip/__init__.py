"""A sentence in a row: words or tokens, log-probabilities, differences underlined.

Words may be buttons, and a second sentence may stand below the first, word by word.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from figures.labels import show_token
from figures.palette import THEMES, signed_table
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
    asks: bool = False,
    pressed: int | None = None,
    struck: Collection[int] = (),
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
        asks: make tokens buttons, which report their position as "word".
        pressed: the button that is pressed.
        struck: positions to strike through.

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
        "asks": asks,
        "pressed": -1 if pressed is None else pressed,
        "struck": [at in struck for at in range(len(tokens))],
    }
    return Component("strip", header)


class Column(NamedTuple):
    """A word of one sentence above its partner in another."""

    tokens: Sequence[str]  # of the first
    #: log_probs, changes: one per token, in nats; the change of the first's tokens
    log_probs: Sequence[float]
    changes: Sequence[float]
    other: str  # the word of the second; "" for none
    differs: bool


def beside_component(
    columns: Sequence[Column], total: float, *, one_line: bool = False
) -> Component[None]:
    """Return an original translation above an edited one, with the change of each token.

    Args:
        total: the sum of all changes, also of tokens that are left out here.
        one_line: see `strip_component`.
    """
    ends = [signed_table(theme)[[0, -1]].tobytes().hex() for theme in THEMES]
    header = {
        "label": "The original translation, the change of each token’s log-probability, and the "
        "edited translation",
        "columns": [
            [labels(each.tokens, 28), [*map(finite, each.log_probs)],
             [*map(finite, each.changes)], each.other and show_token(each.other, 28), each.differs]
            for each in columns
        ],
        "total": finite(total),
        "ends": ends,
        "line": one_line,
    }  # fmt: skip
    return Component("strip", header)
