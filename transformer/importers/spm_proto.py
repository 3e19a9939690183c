"""SentencePiece models that make only the pieces of a given vocabulary.

A model file is a Protocol Buffers message: a list of fields, each a key (number and wire type) and
its value. Field 1, repeated, holds a piece: in it 1 is its text, 2 its score, 3 its kind. Where a
field stands twice the last counts, so a kind is changed by adding one at the end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from transformer.text.tokenizer import TokenizerError

_PIECE, _TEXT, _KIND = 1, 1, 3
_NORMAL, _UNUSED = 1, 5
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5


class _Field(NamedTuple):
    """A field of a message: its number, its whole bytes, and what it holds."""

    number: int
    raw: bytes
    value: int | bytes


def restricted(model: bytes, known: Collection[str]) -> bytes:
    """The model with every ordinary piece unused that is neither known nor a single character.

    Raises: `TokenizerError` for bytes that are no such message.
    """
    return b"".join(
        _without(field, known) if field.number == _PIECE else field.raw for field in _fields(model)
    )


def _without(field: _Field, known: Collection[str]) -> bytes:
    if not isinstance(field.value, bytes):
        raise TokenizerError("not a SentencePiece model (a piece is a number)")
    text, kind = "", _NORMAL
    for inner in _fields(field.value):
        if inner.number == _TEXT and isinstance(inner.value, bytes):
            text = inner.value.decode("utf-8", "replace")
        elif inner.number == _KIND and isinstance(inner.value, int):
            kind = inner.value
    if kind != _NORMAL or text in known or len(text) < 2:
        return field.raw
    changed = field.value + bytes([_KIND << 3 | _VARINT, _UNUSED])
    return bytes([_PIECE << 3 | _BYTES]) + _varint(len(changed)) + changed


def _fields(data: bytes) -> Iterator[_Field]:
    at = 0
    while at < len(data):
        start = at
        key, at = _read_varint(data, at)
        wire, value = key & 7, b""
        if wire == _VARINT:
            number, at = _read_varint(data, at)
            yield _Field(key >> 3, data[start:at], number)
            continue
        if wire == _BYTES:
            length, at = _read_varint(data, at)
        elif wire in (_FIXED_32, _FIXED_64):
            length = 4 if wire == _FIXED_32 else 8
        else:
            raise TokenizerError("not a SentencePiece model (a field of no known kind)")
        if length > len(data) - at:
            raise TokenizerError("not a SentencePiece model (it ends too early)")
        value, at = data[at : at + length], at + length
        yield _Field(key >> 3, data[start:at], value)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise TokenizerError("not a SentencePiece model (it ends too early)")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise TokenizerError("not a SentencePiece model (a number without end)")


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    written.append(value)
    return bytes(written)
