"""The training text, as metrics.json records it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

#: Key of the record.
TRAINING_TEXT = "training_text"

#: Kinds of text by corpus; a model trained on several counts as the first.
KINDS = {"tatoeba": "everyday sentences", "multi30k": "photo captions"}

#: Share of the different sources that are at most as long as `TrainingText.src_tokens`.
COVERED = 0.99


@dataclass(frozen=True)
class TrainingText:
    """The text that a model was trained on."""

    kind: str  # of the text, a value of `KINDS`
    #: tokens of the longest source, leaving out the longest 1%; without `</s>`. A source counts
    #: once.
    src_tokens: int


def kind_of(corpora: Iterable[str]) -> str:
    """Return the kind of text in these corpora, "" if none is of a known kind."""
    named = set(corpora)
    return next((kind for name, kind in KINDS.items() if name in named), "")


def training_text(metrics: Mapping[str, Any]) -> TrainingText | None:
    """Return the record in metrics.json, which is untrusted; None if there is no valid one."""
    match metrics.get(TRAINING_TEXT):
        case {"kind": str(kind), "src_tokens": int(tokens)} if (
            kind in KINDS.values() and tokens > 1
        ):
            return TrainingText(kind, tokens)
    return None
