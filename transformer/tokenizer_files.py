"""The files that a checkpoint keeps its tokenizer in.

* tokenizer.model: a SentencePiece model; alone, its ids are the model's.
* vocabulary.json: the pieces in the order of their ids, where they are not SentencePiece's.
* tokenizer_rules.json: how text is prepared and cut, where SentencePiece alone does not say.
* target.model, target_vocabulary.json, target_rules.json: the same for the other side, where it has
  its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from transformer.config import ModelConfig
from transformer.preparation import Preparation
from transformer.rule_tokenizer import RuleTokenizer
from transformer.table_tokenizer import Marks, Numbered, TableTokenizer
from transformer.tokenizer import TOKENIZER_FILE, Tokenizer, TokenizerError

TARGET_FILE = "target.model"
TABLE_FILE, TARGET_TABLE_FILE = "vocabulary.json", "target_vocabulary.json"
RULES_FILE, TARGET_RULES_FILE = "tokenizer_rules.json", "target_rules.json"
#: Every file that may belong to a tokenizer.
TOKENIZER_FILES = (
    TOKENIZER_FILE, TABLE_FILE, RULES_FILE, TARGET_FILE, TARGET_TABLE_FILE, TARGET_RULES_FILE,
)  # fmt: skip

#: How the rules say that SentencePiece cuts.
_BY_MODEL = "sentencepiece"


def files_of(source: Numbered, target: Numbered | None) -> dict[str, bytes]:
    """What to write so that `read_tokenizer` gives these two again, by file name."""
    files = {TABLE_FILE: _as_json(source.pieces)}
    files |= _side_files(source, TOKENIZER_FILE, RULES_FILE, needs_rules=False)
    if target is None:
        return files
    if target.pieces != source.pieces:
        files[TARGET_TABLE_FILE] = _as_json(target.pieces)
    # Rules of one side would else count for both.
    needed = RULES_FILE in files
    return files | _side_files(target, TARGET_FILE, TARGET_RULES_FILE, needs_rules=needed)


def _side_files(side: Numbered, model: str, rules: str, *, needs_rules: bool) -> dict[str, bytes]:
    files, settings = {}, side.settings
    if isinstance(side, TableTokenizer):
        files[model] = side.to_bytes()
        settings = {"unit": _BY_MODEL, **settings} if settings or needs_rules else {}
    if settings:
        files[rules] = _as_json(settings)
    return files


def read_tokenizer(
    files: Iterable[str], read: Callable[[str], bytes], config: ModelConfig
) -> Tokenizer:
    """The tokenizer of a checkpoint.

    Args:
        files: names of the files that are there.
        read: the bytes of one of `TOKENIZER_FILES`.

    Raises: `TokenizerError`, its message starting with the name of the file at fault.
    """
    files = set(files)
    if TABLE_FILE not in files:
        with blaming(TOKENIZER_FILE):
            return Tokenizer(read(TOKENIZER_FILE))
    own = (TOKENIZER_FILE, TABLE_FILE, RULES_FILE if RULES_FILE in files else None)
    if not files & {TARGET_FILE, TARGET_TABLE_FILE, TARGET_RULES_FILE}:
        return _side(*own, read, config, size=config.vocab_size)
    other = tuple(
        theirs if theirs in files else shared
        for theirs, shared in zip((TARGET_FILE, TARGET_TABLE_FILE, TARGET_RULES_FILE), own,
                                  strict=True)
    )  # fmt: skip
    target = _side(
        other[0] or "", other[1] or "", other[2], read, config, size=config.target_vocab_size
    )
    return _side(*own, read, config, target, size=config.vocab_size)


def _side(
    model: str,
    table: str,
    rules: str | None,
    read: Callable[[str], bytes],
    config: ModelConfig,
    target: Numbered | None = None,
    *,
    size: int,
) -> Numbered:
    with blaming(table):
        pieces = _table(read(table))
        if len(pieces) != size:  # before they are taken apart, which takes memory and time
            raise TokenizerError(f"{len(pieces):,} pieces, but the config asks for {size:,}")
    preparation, marks = Preparation(), Marks()
    if rules is not None:
        with blaming(rules):
            settings = _rules(read(rules))
            if settings.get("unit") != _BY_MODEL:
                return RuleTokenizer.of(settings, pieces, config, target)
            marks = Marks.taken(settings)
            if unknown := settings.keys() - {"unit", "preparation"}:
                raise TokenizerError(f"unknown setting {min(unknown)!r}")
            preparation = Preparation.of(settings.get("preparation", {}))
    with blaming(model):
        return TableTokenizer(read(model), pieces, config, target, preparation, marks)


@contextmanager
def blaming(name: str) -> Iterator[None]:
    """Put the name of a file in front of what is wrong with it."""
    try:
        yield
    except TokenizerError as error:
        raise TokenizerError(f"{name}: {error}") from None


def _table(data: bytes) -> list[str]:
    pieces = _json(data)
    if not isinstance(pieces, list) or not all(isinstance(each, str) for each in pieces):
        raise TokenizerError("expected a JSON list of pieces")
    return pieces


def _rules(data: bytes) -> dict[str, Any]:
    rules = _json(data)
    if not isinstance(rules, dict):
        raise TokenizerError("expected a JSON object")
    return rules


def _json(data: bytes) -> object:
    try:
        values: object = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise TokenizerError(f"not valid JSON: {error}") from None
    return values


def _as_json(values: Sequence[str] | Mapping[str, Any]) -> bytes:
    plain = values if isinstance(values, Mapping) else list(values)
    return (json.dumps(plain, ensure_ascii=False, indent=0) + "\n").encode()
