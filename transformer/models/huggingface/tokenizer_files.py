"""Check the tokenizer files in a model's folder before the `transformers` library reads them."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transformer.files.safe import MAX_SMALL_FILE, MAX_TABLE, json_object, read_small
from transformer.models.huggingface.files import CONFIG, GENERATION, INDEX, library
from transformer.models.huggingface.tokenizer import HubTokenizer
from transformer.text.limits import check_pieces, check_tokenizer_json, checked_sentencepiece
from transformer.types import CheckpointError, InputError

TOKENIZER_CONFIG = "tokenizer_config.json"
#: Suffixes of tokenizer files.
SUFFIXES = (
    ".json", ".txt", ".model", ".spm", ".bpe", ".codes", ".vocab", ".tiktoken", ".tokenizer",
)  # fmt: skip


def read_tokenizer(
    folder: Path,
    values: Mapping[str, Any],
    config: Any,
    sizes: tuple[int, int],
    special: Sequence[int],
) -> HubTokenizer:
    """Read the tokenizer in a model's folder.

    The library reads copies of the tokenizer's own files, with settings that name no other file.

    Args:
        values: checked values of config.json.
        config: the library's config.
        sizes, special: see `HubTokenizer`.

    Raises: `CheckpointError` naming the bad file.
    """
    transformers = library(folder)
    settings: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="headlight-tokenizer-") as copied:
        copies, left = Path(copied), MAX_SMALL_FILE
        names = sorted(path.name for path in folder.iterdir() if path.suffix in SUFFIXES)
        for name in names:
            if name in (CONFIG, GENERATION, "adapter_config.json") or name.endswith(INDEX):
                continue
            if name == TOKENIZER_CONFIG:
                settings = _settings(folder / name)
                (copies / name).write_text(json.dumps(settings), encoding="utf-8")
            else:
                data = read_small(folder / name, left)
                left -= len(data)
                (copies / name).write_bytes(_checked(folder / name, data))
        if not any(copies.iterdir()):
            raise CheckpointError(f"{folder}: the tokenizer's files are missing")
        (copies / CONFIG).write_text(json.dumps(dict(values)), encoding="utf-8")
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(
                copied, config=config, local_files_only=True, trust_remote_code=False
            )
        except BaseException as error:
            # A damaged file may make the library's Rust code panic, which is not an Exception.
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            reason = " ".join(str(error).replace(copied, ".").split())[:300]
            own = settings.get("tokenizer_class")
            if isinstance(own, str) and getattr(transformers, own, None) is None:
                reason = f"{own[:80]} is not the library's; the model's own code is never run"
            raise CheckpointError(f"{folder}: the tokenizer cannot be read ({reason})") from None
    return checked_tokenizer(str(folder), tokenizer, sizes, special)


def _checked(path: Path, data: bytes) -> bytes:
    """Return a tokenizer file's data within the limits. Raises `CheckpointError` naming it."""
    try:
        if path.suffix in (".model", ".spm"):
            return checked_sentencepiece(data)
        if path.name.startswith("tokenizer.") and path.suffix == ".json":
            check_tokenizer_json(data)
        return data
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path}: the tokenizer cannot be read ({error})") from None


def checked_tokenizer(
    where: str, tokenizer: Any, sizes: tuple[int, int], special: Sequence[int]
) -> HubTokenizer:
    """Wrap one of the library's tokenizers. Raises `CheckpointError` if its size does not fit."""
    if not hasattr(tokenizer, "convert_ids_to_tokens"):
        raise InputError(f"not a tokenizer of the transformers library: {tokenizer!r:.80}")
    try:
        check_pieces(tokenizer.get_vocab())
    except ValueError as error:
        raise CheckpointError(f"{where}: the tokenizer has {error}") from None
    wrapped = HubTokenizer(tokenizer, sizes, special)
    n_pieces = int(tokenizer.vocab_size)
    counts = tuple(map(len, wrapped.tables)) if wrapped.tables else (n_pieces, n_pieces)
    sides = zip(("source", "target"), sizes, counts, wrapped.fits, strict=True)
    for side, size, count, fits in sides:
        if (fits and count > size) or (side == "source" and not fits):
            raise CheckpointError(
                f"{where}: the tokenizer has {count:,} pieces, "
                f"but the model's {side} vocabulary has {size:,}"
            )
    return wrapped


def _settings(path: Path) -> dict[str, Any]:
    """Return tokenizer_config.json without file names, which are standard."""
    values = json_object(path, MAX_TABLE)
    if values.get("auto_map"):
        raise CheckpointError(f"{path}: auto_map requires the model's own code, which is never run")
    ignored = ("name_or_path", "_commit_hash", "chat_template", "vocab", "merges")
    return {
        key: value
        for key, value in values.items()
        if not (key in ignored or (key.endswith(("_file", "_spm")) and isinstance(value, str)))
    }
