"""A sentence in a row: words or tokens, log-probabilities, underlined differences.

Words may be buttons, and a second sentence may follow below the first, word by word.
"""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from figures.labels import show_token
from figures.palette import THEMES, signs
from ui.components.packing import Component, finite, labels


def strip_component(
    tokens: Sequence[str], log_probs: Sequence[float], differing: Collection[int] = (), *,
    label: str, parts_at: int | None = None, lead: str = "", asks: bool = False,
    pressed: int | None = None, struck: Collection[int] = (),
) -> Component[None]:  # fmt: skip
    """Return the component.

    Args:
        tokens: any text.
        log_probs: one per token, in nats; empty if the text was not predicted.
        differing: positions to underline.
        label: row name for screen readers.
        parts_at: position of the first difference.
        lead: name in front of the row.
        asks: make tokens buttons that report their position as "word".
        pressed: position of the pressed button.
        struck: positions to strike through.

    Raises: `ValueError` if the numbers of tokens and log-probabilities differ.
    """
    if log_probs and len(log_probs) != len(tokens):
        raise ValueError(f"{len(log_probs)} log-probabilities for {len(tokens)} tokens")
    header: dict[str, Any] = {
        "label": label,
        "tokens": labels(tokens, 28),
        "log_probs": [*map(finite, log_probs)],
        "differing": [at in differing for at in range(len(tokens))],
        "parting": -1 if parts_at is None else parts_at,
        "lead": lead,
        "asks": asks,
        "pressed": -1 if pressed is None else pressed,
        "struck": [at in struck for at in range(len(tokens))],
    }
    return Component("strip", header)


class Column(NamedTuple):
    """A word of one sentence above its partner in another."""

    tokens: Sequence[str]  # tokens of the first sentence's word
    #: log_probs, changes: one per token, in nats
    log_probs: Sequence[float]
    changes: Sequence[float]
    other: str  # the second sentence's word, or ""
    differs: bool


def beside_component(columns: Sequence[Column], total: float) -> Component[None]:
    """Return an original translation above an edited one, with the change per token.

    Args: total: sum of all changes, including those of omitted tokens.
    """
    header = {
        "label": "The original translation, the change of each token’s log-probability, and the "
        "edited translation",
        "columns": [
            [labels(tokens, 28), [*map(finite, log_probs)], [*map(finite, changes)],
             other and show_token(other, 28), differs]
            for tokens, log_probs, changes, other, differs in columns
        ],
        "total": finite(total),
        "ends": [signs(theme) for theme in THEMES],
    }  # fmt: skip
    return Component("strip", header)
