"""Limits for tokenizer files, checked before SentencePiece or `tokenizers` reads them.

A one-kilobyte file can turn one character into any number of pieces, and a pattern can take hours.
"""

import base64
import math
import re
import struct
from collections.abc import Iterable, Iterator
from typing import Any

from transformer.config import parse_json

#: Maximum number of pieces, and length of a piece in characters.
MAX_PIECES, MAX_PIECE = 1_000_000, 1_000
#: Maximum values in a tokenizer.json; 500,000 merges take 1.5 million.
MAX_TOKENIZER_VALUES = 4_000_000
#: Maximum bytes in place of a character; NFKC needs up to 33, for U+FDFA.
MAX_REPLACEMENT = 64
#: Maximum factor by which all replacements in a tokenizer.json may lengthen a text, number of
#: special tokens around it, and characters of a WordPiece word, whose time is cubic.
MAX_GROWTH, MAX_TEMPLATE, MAX_WORD = 64, 1_000, 1_000

#: In regular expressions: a character or a class of them, a group and its quantifier, quantifiers
#: without a limit, several in a row, and references to groups.
_ATOM = re.compile(r"\\[pP]\{[^}]*\}|\\.|\[(?:\\.|[^\[\]\\])*\]")
_GROUP = re.compile(r"\((?:\?(?:[imx-]*:|<?[=!]|>))?([^()]*)\)([*+{]|\??)")
_LOOP = re.compile(r"(?<!\?)(?:[*+]|\{\d*,\d*\})[?+]?")
_NESTED = re.compile(r"\}[*+{]|[*+?][*{]|[*+?]{3}|[()\[\]\\]")
_REFERENCE = re.compile(r"\\[1-9gk]")


def check_pieces(pieces: Iterable[str]) -> None:
    """Raise `ValueError` if a piece is too long; a translation may repeat it."""
    if (longest := max(map(len, pieces), default=0)) > MAX_PIECE:
        raise ValueError(f"a piece of {longest:,} characters; at most {MAX_PIECE:,} are allowed")


def checked_sentencepiece(model: bytes) -> bytes:
    """Return a SentencePiece model without its self-test, a text of any length.

    Raises: `ValueError`.
    """
    # Not needed otherwise, and particular about the version of protobuf.
    from google.protobuf.message import DecodeError
    from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

    # A piece has two of these bytes; an empty piece takes 50 times its size in memory.
    if model.count(b"\n") > 2 * MAX_PIECES:
        raise ValueError(f"more than {MAX_PIECES:,} pieces")
    try:
        proto = ModelProto.FromString(model)
        check_pieces(piece.piece for piece in proto.pieces)
    except (DecodeError, UnicodeDecodeError):
        raise ValueError("damaged, or another format") from None
    for spec in (proto.normalizer_spec, proto.denormalizer_spec):
        _check_characters(spec.precompiled_charsmap)
    proto.DiscardUnknownFields()
    return bytes(proto.SerializeToString())


def _check_characters(table: bytes) -> None:
    """Check a table of characters: the size of a trie, the trie, and the replacements."""
    begin = 4 + struct.unpack("<L", table[:4].ljust(4, b"\0"))[0]
    if max(map(len, table[begin:].split(b"\0"))) > MAX_REPLACEMENT:
        raise ValueError(f"a character becomes more than {MAX_REPLACEMENT} bytes")


def check_tokenizer_json(data: bytes) -> None:
    """Check a tokenizer.json of the `tokenizers` library. Raises `ValueError`."""
    values = parse_json(data, MAX_TOKENIZER_VALUES)
    if not isinstance(values, dict):
        raise ValueError("expected a JSON object")
    model = values.pop("model", None)
    model = model if isinstance(model, dict) else {}
    if _number(model.get("max_input_chars_per_word")) > MAX_WORD:
        raise ValueError(f"max_input_chars_per_word is above {MAX_WORD:,}")
    growth = 1.0
    for step in _objects(values):
        kind, pattern = step.get("type"), step.get("pattern")
        plain = pattern.get("String") if isinstance(pattern, dict) else None
        if isinstance(pattern, dict) and isinstance(pattern.get("Regex"), str):
            check_pattern(pattern["Regex"])
        if kind == "Replace":
            content = len(str(step.get("content", "")))
            growth *= max(1, content / len(plain)) if plain else 1 + content
        elif kind in ("Prepend", "ByteLevel"):
            growth *= 2
            if len(str(step.get("prepend", ""))) > MAX_PIECE:
                raise ValueError("a long text in front of every text")
        elif kind == "Precompiled":
            _check_characters(base64.b64decode(str(step.get("precompiled_charsmap") or "")))
        elif kind == "TemplateProcessing":
            _check_template(step)
    if growth > MAX_GROWTH:
        raise ValueError(f"its replacements lengthen a text more than {MAX_GROWTH} times")


def _check_template(step: dict[str, Any]) -> None:
    sizes = {
        name: len(token["ids"]) for name, token in dict(step.get("special_tokens") or {}).items()
    }
    used = [token.get("SpecialToken", {}).get("id") for token in step.get("single") or []]
    if sum(sizes.get(name, 0) for name in used) > MAX_TEMPLATE:
        raise ValueError(f"it adds more than {MAX_TEMPLATE:,} special tokens")


def check_pattern(pattern: str) -> None:
    """Refuse regular expressions that may take more than quadratic time. Raises `ValueError`.

    Allowed are one repetition in each alternative and a second at its end, but no repeated groups.
    """
    text, before = pattern, ""
    while text != before:  # classes may be nested
        text, before = _ATOM.sub("x", text), text
    while (group := _GROUP.search(text)) and group[2] in ("", "?"):
        inner = "x" + "+x" * len(_LOOP.findall(group[1])) + group[2]
        text = text[: group.start()] + inner + text[group.end() :]
    alternatives = [re.sub(r"(x\?)+$", "", part) for part in text.split("|")]
    if _REFERENCE.search(pattern) or _NESTED.search(text) or any(
        len(_LOOP.findall(part)) > 1 + bool(re.search(r"([*+]|\})[?+]?$", part))
        for part in alternatives
    ):  # fmt: skip
        raise ValueError(f"the pattern {pattern!r:.60} may take too long")


def _number(value: object) -> float:
    return value if isinstance(value, int | float) else math.nan


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects within a JSON value, itself included."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
