"""The tokenizer files of a checkpoint.

* tokenizer.model: a SentencePiece model; without a vocabulary, its own ids are used.
* vocabulary.json: the pieces in the order of their ids, if these differ from SentencePiece's.
* tokenizer_rules.json: preparation and segmentation that SentencePiece does not cover.
* target.model, target_vocabulary.json, target_rules.json: the same for the target side, if it has
  its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

TOKENIZER_FILE = "tokenizer.model"
TARGET_FILE = "target.model"
TABLE_FILE, TARGET_TABLE_FILE = "vocabulary.json", "target_vocabulary.json"
RULES_FILE, TARGET_RULES_FILE = "tokenizer_rules.json", "target_rules.json"
#: Every file that may belong to a tokenizer.
TOKENIZER_FILES = (
    TOKENIZER_FILE, TABLE_FILE, RULES_FILE, TARGET_FILE, TARGET_TABLE_FILE, TARGET_RULES_FILE,
)  # fmt: skip

#: The `unit` of rules that leave segmentation to SentencePiece.
BY_MODEL = "sentencepiece"


class SavedTokenizer(Protocol):
    """The parts of one side's tokenizer that are saved."""

    pieces: tuple[str, ...]

    @property
    def settings(self) -> dict[str, Any]:
        """Settings needed to rebuild it, beside its model and table, for JSON."""

    def model_bytes(self) -> bytes | None:
        """Return the SentencePiece model; None if rules segment the text."""


def files_of(source: SavedTokenizer, target: SavedTokenizer | None) -> dict[str, bytes]:
    """Return the files from which `read_tokenizer` rebuilds both sides: name to bytes."""
    files = {TABLE_FILE: _as_json(source.pieces)}
    files |= _side_files(source, TOKENIZER_FILE, RULES_FILE, needs_rules=False)
    if target is None:
        return files
    if target.pieces != source.pieces:
        files[TARGET_TABLE_FILE] = _as_json(target.pieces)
    # Otherwise the rules of one side would apply to both.
    needed = RULES_FILE in files
    return files | _side_files(target, TARGET_FILE, TARGET_RULES_FILE, needs_rules=needed)


def _side_files(
    side: SavedTokenizer, model: str, rules: str, *, needs_rules: bool
) -> dict[str, bytes]:
    files, settings = {}, side.settings
    model_bytes = side.model_bytes()
    if model_bytes is not None:
        files[model] = model_bytes
        settings = {"unit": BY_MODEL, **settings} if settings or needs_rules else {}
    if settings:
        files[rules] = _as_json(settings)
    return files


def _as_json(values: Sequence[str] | Mapping[str, Any]) -> bytes:
    plain = values if isinstance(values, Mapping) else list(values)
    return (json.dumps(plain, ensure_ascii=False, indent=0) + "\n").encode()
