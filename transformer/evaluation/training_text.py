"""What a model was trained on: the kind of text, and how long its sentences are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from transformer.text.tokenizer import Tokenizer
from transformer.training.corpus import load_corpus
from transformer.training.recipe import Recipe

#: Key of the record in metrics.json.
TRAINING_TEXT = "training_text"

#: Kinds of text by corpus; a model trained on several counts as the first.
KINDS = {"tatoeba": "everyday sentences", "multi30k": "photo captions"}

#: Share of the different sources that are at most as long as `TrainingText.src_tokens`.
COVERED = 0.99


@dataclass(frozen=True)
class TrainingText:
    """The text that a model was trained on.

    Attributes:
        kind: of the text, a value of `KINDS`.
        src_tokens: tokens of the longest source, leaving out the longest 1%; without `</s>`. A
            source counts once.
    """

    kind: str
    src_tokens: int


def kind_of(recipe: Recipe) -> str:
    """Return the kind of a recipe's text, "" if its corpora are of no known kind."""
    return next((kind for name, kind in KINDS.items() if name in recipe.data.corpora), "")


def read_training_text(recipe: Recipe, data: Path, tokenizer: Tokenizer) -> dict[str, Any] | None:
    """Measure the text of a recipe's corpora, without further files only for training.

    Returns: the record for metrics.json, None if the text is of no known kind.

    Raises: `DataError` if text is missing.
    """
    kind = kind_of(recipe)
    if not kind:
        return None
    corpus = load_corpus(replace(recipe.data, train_only=None), data)
    sources = list(dict.fromkeys(src for src, _ in corpus.train))
    lengths = [len(ids) for ids in tokenizer.encode_many(sources)]
    longest = int(np.quantile(lengths, COVERED, method="inverted_cdf"))
    return asdict(TrainingText(kind, longest))


def training_text(metrics: Mapping[str, Any]) -> TrainingText | None:
    """Return the record in metrics.json, which is untrusted; None if there is no valid one."""
    match metrics.get(TRAINING_TEXT):
        case {"kind": str(kind), "src_tokens": int(tokens)} if (
            kind in KINDS.values() and tokens > 1
        ):
            return TrainingText(kind, tokens)
    return None
