"""Pieces of other tokenizers in this project's spelling: `▁` (U+2581) marks the start of a word.

SentencePiece writes them so already. Byte-level BPE (GPT-2, BART) has a character for every byte,
`Ġ` for a space among them; WordPiece (BERT) marks the pieces that go on with a word by `##`; older
BPE (XLM, GPT) marks those that end one by `</w>`. Nothing here needs the library itself.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import cache
from typing import Literal

#: How a vocabulary marks words.
Style = Literal["sentencepiece", "bytes", "raw_bytes", "wordpiece", "word_end", "plain"]

START, CONTINUES, ENDS = "\u2581", "##", "</w>"
BYTE_SPACE = "\u0120"


def style_of(vocabulary: Iterable[str]) -> Style:
    """The style that most pieces of a vocabulary are written in."""
    counts: dict[Style, int] = {"sentencepiece": 0, "bytes": 0, "wordpiece": 0, "word_end": 0}
    for piece in vocabulary:
        counts["sentencepiece"] += piece.startswith(START)
        counts["bytes"] += piece.startswith(BYTE_SPACE)
        counts["wordpiece"] += piece.startswith(CONTINUES) and piece != CONTINUES
        counts["word_end"] += piece.endswith(ENDS)
    best = max(counts, key=lambda style: counts[style])
    return best if counts[best] else "plain"


@cache
def byte_characters() -> dict[str, int]:
    """The byte that each character of byte-level BPE stands for.

    Bytes that are visible characters of Latin-1 stand for themselves, the other 68, in order, are
    written as the characters from U+0100 on.
    """
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = (byte for byte in range(256) if byte not in visible)
    return {chr(byte): byte for byte in visible} | {
        chr(0x100 + order): byte for order, byte in enumerate(hidden)
    }


def rewritten(piece: str, style: Style, *, starts: bool | None = None) -> str:
    """A piece with `▁` where a word starts, and bytes as the text they spell.

    Args:
        starts: whether a word starts here, where the text says so; None goes by the piece alone.
    """
    if style == "bytes":
        table = byte_characters()
        if all(character in table for character in piece):
            return _spelled(bytes(table[character] for character in piece))
        return _marked(piece)
    if style == "raw_bytes":
        return _spelled(bytes(map(ord, piece))) if max(map(ord, piece), default=0) < 256 else piece
    if style == "wordpiece":
        goes_on = piece.startswith(CONTINUES) and piece != CONTINUES
        body = piece.removeprefix(CONTINUES) if goes_on else piece
        if starts is None:
            # Without the text, a mark that stands alone is taken to close the word before it.
            starts = not goes_on and not (len(body) == 1 and _is_mark(body))
        return START + body if starts else body
    if style == "word_end":
        body = piece.removesuffix(ENDS)
        return START + body if starts else body
    return piece if style == "sentencepiece" else _marked(piece)


def _marked(text: str) -> str:
    return text.replace(" ", START)


def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] == "P"


def _spelled(data: bytes) -> str:
    """The text of some bytes; what is no text, like part of a character, as `<0xE2>`."""
    # Bytes that are no UTF-8 come out as lone surrogates, from U+DC80 on.
    written = []
    for character in data.decode("utf-8", "surrogateescape"):
        code = ord(character)
        if 0xDC80 <= code <= 0xDCFF:
            written.append(f"<0x{code - 0xDC00:02X}>")
        elif character == " ":
            written.append(START)
        elif code < 0x20 or code == 0x7F:
            written.append(f"<0x{code:02X}>")
        else:
            written.append(character)
    return "".join(written)
