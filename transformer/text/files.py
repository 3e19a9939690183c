"""Read a checkpoint's tokenizer from its files (see `transformer.text.layout`)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from transformer.config import ModelConfig, parse_json
from transformer.text.layout import BY_MODEL, SOURCE_FILES, TABLE_FILE, TARGET_FILES, TOKENIZER_FILE
from transformer.text.rules import RuleTokenizer
from transformer.text.table import Marks, Numbered, TableTokenizer
from transformer.text.tokenizer import Preparation, Tokenizer, TokenizerError


def read_tokenizer(
    files: Iterable[str], read: Callable[[str], bytes], config: ModelConfig
) -> Tokenizer:
    """Read a checkpoint's tokenizer.

    Args:
        files: names of the files present.
        read: returns the content of one of `TOKENIZER_FILES`.

    Raises: `TokenizerError`, its message starting with the file's name.
    """
    files = set(files)

    def side(names: Sequence[str], size: int, target: Numbered | None = None) -> Numbered:
        model, table, rules = names
        with blaming(table):
            pieces = _json(read(table))
            if not isinstance(pieces, list) or not all(isinstance(p, str) for p in pieces):
                raise TokenizerError("expected a JSON list of pieces")
            if len(pieces) != size:  # checked before parsing, which takes memory and time
                raise TokenizerError(f"{len(pieces):,} pieces, but the config requires {size:,}")
        preparation, marks = Preparation(), Marks()
        if rules in files:
            with blaming(rules):
                settings = _json(read(rules))
                if not isinstance(settings, dict):
                    raise TokenizerError("expected a JSON object")
                if settings.get("unit") != BY_MODEL:
                    return RuleTokenizer.of(settings, pieces, config, target)
                marks = Marks.taken(settings)
                if unknown := settings.keys() - {"unit", "preparation"}:
                    raise TokenizerError(f"unknown setting {min(unknown)!r}")
                preparation = Preparation.of(settings.get("preparation", {}))
        with blaming(model):
            return TableTokenizer(read(model), pieces, config, target, preparation, marks)

    if TABLE_FILE not in files:
        with blaming(TOKENIZER_FILE):
            return Tokenizer(read(TOKENIZER_FILE))
    target = None
    if files & set(TARGET_FILES):
        pairs = zip(TARGET_FILES, SOURCE_FILES, strict=True)
        names = [own if own in files else shared for own, shared in pairs]
        target = side(names, config.target_vocab_size)
    return side(SOURCE_FILES, config.vocab_size, target)


@contextmanager
def blaming(name: str) -> Iterator[None]:
    """Prefix tokenizer errors with the name of the file."""
    try:
        yield
    except TokenizerError as error:
        raise TokenizerError(f"{name}: {error}") from None


def _json(data: bytes) -> Any:
    try:
        return parse_json(data)
    except ValueError as error:
        raise TokenizerError(f"not valid JSON: {error}") from None
