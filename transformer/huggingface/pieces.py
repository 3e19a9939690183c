"""Spells other tokenizers' pieces in this project's way: `▁` (U+2581) marks the start of a word.

SentencePiece does so itself. Byte-level BPE (GPT-2, BART) has a character for every byte, `Ġ` for a
space; WordPiece (BERT) marks pieces that continue a word by `##`; older BPE (XLM, GPT) marks pieces
that end one by `</w>`. Nothing here needs the library itself.
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
    """Return the style of most pieces of a vocabulary."""
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
    """Return the byte for each character of byte-level BPE.

    Visible characters of Latin-1 stand for themselves; the other 68 bytes, in order, are written
    as the characters from U+0100.
    """
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = (byte for byte in range(256) if byte not in visible)
    return {chr(byte): byte for byte in visible} | {
        chr(0x100 + order): byte for order, byte in enumerate(hidden)
    }


def rewritten(piece: str, style: Style, *, starts: bool | None = None) -> str:
    """Return a piece with `▁` at the start of a word, and bytes as the text they spell.

    Args: starts: whether a word starts here, if known from the text; None decides by the piece.
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
            # Without the text, a single punctuation mark is assumed to follow a word directly.
            starts = not (goes_on or (len(body) == 1 and unicodedata.category(body)[0] == "P"))
        return START + body if starts else body
    if style == "word_end":
        body = piece.removesuffix(ENDS)
        return START + body if starts else body
    return piece if style == "sentencepiece" else _marked(piece)


def _marked(text: str) -> str:
    return text.replace(" ", START)


def _spelled(data: bytes) -> str:
    """Decode bytes; those that are not text, such as part of a character, become `<0xE2>`."""
    # Bytes that are not UTF-8 become lone surrogates from U+DC80.
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
