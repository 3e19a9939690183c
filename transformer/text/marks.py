"""Word marks in vocabularies, rewritten as `▁` (U+2581) before a word's first piece."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from itertools import cycle
from typing import Literal

from transformer.types import literals

#: Styles of marking word starts; `MARKS` has the styles that pieces reveal. "raw_bytes" pieces are
#: bytes (ByT5); "plain" pieces are unmarked words.
Style = Literal[
    "sentencepiece", "bytes", "raw_bytes", "wordpiece", "word_end", "joined", "spaced", "plain"
]

START, BYTE_SPACE, CONTINUES, JOINER = "\u2581", "\u0120", "##", "\uffed"
#: Stands before text outside the vocabulary; in other text, this character is `[U+2047]`.
UNKNOWN = "\u2047"
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
#: Marks at the end of a word's last piece (the second for SentencePiece with trailing spaces), and
#: at the end of all other pieces.
ENDS, JOINS = ("</w>", START), ("@@", JOINER)

#: Tests for a style's mark.
MARKS: dict[Style, Callable[[str], bool]] = {
    "sentencepiece": lambda piece: piece.startswith(START),
    # GPT-2, BART: one character per byte, `Ġ` for a space.
    "bytes": lambda piece: piece.startswith(BYTE_SPACE),
    # BERT: pieces that continue a word.
    "wordpiece": lambda piece: piece.startswith(CONTINUES) and piece != CONTINUES,
    # XLM, FSMT, GPT; the mark alone also ends a word.
    "word_end": lambda piece: piece.endswith(ENDS) and not piece.startswith(START),
    # subword-nmt (`play@@ ing`), CTRL, PhoBERT; OpenNMT's joiner may come first (`dog ￭s`).
    "joined": lambda piece: (
        piece not in JOINS and (piece.endswith(JOINS) or piece.startswith(JOINER))
    ),
    "spaced": lambda piece: piece.startswith(" "),
}

#: Language codes such as `deu_Latn` and `de_DE`, for vocabularies that do not list theirs.
LANGUAGE = re.compile(r"[a-z]{2,3}_([A-Z]{2}|[A-Z][a-z]{3})")
#: Names of special tokens, including language tags (`__de__`, `>>deu<<`).
SPECIAL = re.compile(
    r"</?s>|<(?:pad|unk|bos|eos|cls|sep|mask|(?:extra_id_|special)\d+)>|<\|\w{1,40}\|>"
    r"|\[(?:PAD|UNK|BOS|EOS|CLS|SEP|X_SEP|MASK|unused\d+)\]"
    rf"|__[a-z]{{2,3}}__|<2[\w-]{{2,12}}>|>>[A-Za-z][\w@.-]{{0,39}}<<|{LANGUAGE.pattern}"
)


def style_of(pieces: Iterable[str]) -> Style:
    """Return the most common style among pieces of a vocabulary or a text."""
    counts = dict.fromkeys(MARKS, 0)
    for piece in pieces:
        for style, has_mark in MARKS.items():
            counts[style] += has_mark(piece)
    best = max(counts, key=lambda style: counts[style])
    return best if counts[best] else "plain"


@cache
def byte_characters() -> dict[str, int]:
    """Return the byte for each character of byte-level BPE.

    Visible Latin-1 characters stand for themselves; the other 68 bytes, in order, are written as
    the characters from U+0100.
    """
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in visible]
    return {chr(b): b for b in visible} | {chr(0x100 + n): b for n, b in enumerate(hidden)}


@literals
def marked(
    pieces: Sequence[str], style: Style, *, special: Collection[int] = (),
    starts: Sequence[bool] | None = None, after: str | None = None,
) -> tuple[str, ...]:  # fmt: skip
    """Return consecutive pieces with `▁` at word starts, and bytes as the text they spell.

    Args:
        special: positions of special tokens, which get no mark.
        starts: True for pieces that start a word, if known from the text.
        after: the piece before the first; None at the beginning or after a special token.
    """
    result, continues = [], after is not None and _continues(after, style)
    for at, piece in enumerate(pieces):
        if at in special:
            result.append(visible(piece))
            continues = False
            continue
        body = _body(piece, style)
        if style not in ("wordpiece", "word_end", "joined", "plain"):  # the mark is in the piece
            begins = False
        elif starts is not None:
            begins = starts[at]
        elif style == "wordpiece":
            # Without the text, a single punctuation mark is assumed to follow a word directly.
            alone = len(piece) == 1 and unicodedata.category(piece)[0] == "P"
            begins = not (MARKS[style](piece) or alone)
        else:
            begins = not (continues or piece.startswith(JOINER))
        result.append(START + body if begins and body[:1] != START else body)
        continues = _continues(piece, style)
    return tuple(result)


def _continues(piece: str, style: Style) -> bool:
    """Return True if a word continues after this piece."""
    if style == "word_end":
        return piece == START or not piece.endswith(ENDS)  # a space alone is the next one's mark
    return style == "joined" and piece != JOINS[0] and piece.endswith(JOINS)


def _body(piece: str, style: Style) -> str:
    """Return a piece's text without its mark; a mark alone stays."""
    if style in ("bytes", "raw_bytes"):
        table = byte_characters() if style == "bytes" else {chr(byte): byte for byte in range(256)}
        if all(character in table for character in piece):
            spelled = bytes(table[character] for character in piece)
            return visible(spelled.decode("utf-8", "surrogateescape"))
    elif style in ("wordpiece", "word_end", "joined") and MARKS[style](piece):
        piece = piece.removeprefix(CONTINUES) if style == "wordpiece" else piece
        for mark in {"word_end": ENDS, "joined": JOINS}.get(style, ()):
            piece = piece.removesuffix(mark) or mark
        piece = piece.removeprefix(JOINER) if style == "joined" else piece
    return visible(piece)


def visible(text: str) -> str:
    """Return text with `▁` for spaces; write bytes, controls and line breaks as `<0x0A>`.

    Args: text: lone surrogates from U+DC80 stand for bytes that are not UTF-8.
    """
    result = []
    for character in text:
        if character == " ":
            result.append(START)
        elif character == UNKNOWN:
            result.append("[U+2047]")
        elif "\udc80" <= character <= "\udcff":
            result.append(f"<0x{ord(character) - 0xDC00:02X}>")
        elif unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp"):
            result += (f"<0x{byte:02X}>" for byte in character.encode("utf-8", "surrogatepass"))
        else:
            result.append(character)
    return "".join(result)


def as_unknown(text: str) -> str:
    """Return the piece that displays text outside the vocabulary: `▁⁇T` for `▁T`."""
    start = START if text.startswith(START) else ""
    return start + UNKNOWN + visible(text.removeprefix(START))


def is_unknown(piece: str) -> bool:
    """Return True for a result of `as_unknown`."""
    return piece.removeprefix(START).startswith(UNKNOWN)


def unmarked(pieces: Iterable[str]) -> tuple[str, ...]:
    """Return pieces without the mark of `as_unknown`, to compare them with other pieces."""
    return tuple(piece.replace(UNKNOWN, "", 1) if is_unknown(piece) else piece for piece in pieces)


def decoded(pieces: Sequence[str]) -> list[str]:
    """Return pieces with bytes as text: a character's first piece has it, its others are ""."""
    if not any("<0x" in piece for piece in pieces):
        return [*pieces]
    spelled = [
        b"".join(
            bytes.fromhex(part) if odd else part.encode("utf-8", "surrogatepass")
            for odd, part in zip(cycle((False, True)), _BYTE.split(piece), strict=False)
        )
        for piece in pieces
    ]
    owners = [at for at, data in enumerate(spelled) for _ in data]
    result, place = [""] * len(pieces), 0
    for character in b"".join(spelled).decode("utf-8", "surrogateescape"):
        owner = owners[place]
        place += len(character.encode("utf-8", "surrogateescape"))
        if character == UNKNOWN not in pieces[owner]:  # text, spelled in bytes
            character = visible(character)
        result[owner] += "\ufffd" if "\udc80" <= character <= "\udcff" else character
    return result
