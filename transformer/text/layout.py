"""The files that a checkpoint keeps its tokenizer in.

* tokenizer.model: a SentencePiece model; alone, its ids are the model's.
* vocabulary.json: the pieces in the order of their ids, where they are not SentencePiece's.
* tokenizer_rules.json: how text is prepared and cut, where SentencePiece alone does not say.
* target.model, target_vocabulary.json, target_rules.json: the same for the other side, where it has
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

#: How the rules say that SentencePiece cuts.
BY_MODEL = "sentencepiece"


class Side(Protocol):
    """What is written of one side's tokenizer."""

    pieces: tuple[str, ...]

    @property
    def settings(self) -> dict[str, Any]:
        """All that is needed to build it again beside its model and its table, for JSON."""

    def model_bytes(self) -> bytes | None:
        """The SentencePiece model that cuts, None where rules do."""


def files_of(source: Side, target: Side | None) -> dict[str, bytes]:
    """Bytes of each file from which `read_tokenizer` builds these two again, by file name."""
    files = {TABLE_FILE: _as_json(source.pieces)}
    files |= _side_files(source, TOKENIZER_FILE, RULES_FILE, needs_rules=False)
    if target is None:
        return files
    if target.pieces != source.pieces:
        files[TARGET_TABLE_FILE] = _as_json(target.pieces)
    # Rules of one side would else count for both.
    needed = RULES_FILE in files
    return files | _side_files(target, TARGET_FILE, TARGET_RULES_FILE, needs_rules=needed)


def _side_files(side: Side, model: str, rules: str, *, needs_rules: bool) -> dict[str, bytes]:
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
