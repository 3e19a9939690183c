"""Marks of words in vocabularies, rewritten as `▁` (U+2581) before the first piece of a word."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from typing import Literal

#: Styles of marking where words start; `MARKS` has the styles that pieces reveal.
#: "raw_bytes" pieces are bytes (ByT5); "plain" ones are words, without any mark.
Style = Literal[
    "sentencepiece", "bytes", "raw_bytes", "wordpiece", "word_end", "joined", "spaced", "plain"
]

START, BYTE_SPACE, CONTINUES, JOINER = "\u2581", "\u0120", "##", "\uffed"
#: Marks at the end of a word's last piece, the second where SentencePiece puts spaces there,
#: and at the end of all its others.
ENDS, JOINS = ("</w>", START), ("@@", JOINER)

#: Test of a piece for the mark of a style.
MARKS: dict[Style, Callable[[str], bool]] = {
    "sentencepiece": lambda piece: piece.startswith(START),
    # GPT-2, BART: a character for each byte, `Ġ` for a space.
    "bytes": lambda piece: piece.startswith(BYTE_SPACE),
    # BERT: pieces that continue a word.
    "wordpiece": lambda piece: piece.startswith(CONTINUES) and piece != CONTINUES,
    # XLM, FSMT, GPT; a piece of the mark alone is a word's end, too.
    "word_end": lambda piece: piece.endswith(ENDS) and not piece.startswith(START),
    # subword-nmt (`play@@ ing`), CTRL, PhoBERT; OpenNMT's joiner also stands in front (`dog ￭s`).
    "joined": lambda piece: (
        piece not in JOINS and (piece.endswith(JOINS) or piece.startswith(JOINER))
    ),
    "spaced": lambda piece: piece.startswith(" "),
}

#: Language codes of vocabularies without a list of them: `deu_Latn`, `de_DE`.
LANGUAGE = re.compile(r"[a-z]{2,3}_([A-Z]{2}|[A-Z][a-z]{3})")
#: Names that tokenizers give to special tokens, tags of languages (`__de__`, `>>deu<<`) included.
SPECIAL = re.compile(
    r"</?s>|<(?:pad|unk|bos|eos|cls|sep|mask|(?:extra_id_|special)\d+)>|<\|\w{1,40}\|>"
    r"|\[(?:PAD|UNK|BOS|EOS|CLS|SEP|X_SEP|MASK|unused\d+)\]"
    rf"|__[a-z]{{2,3}}__|<2[\w-]{{2,12}}>|>>[A-Za-z][\w@.-]{{0,39}}<<|{LANGUAGE.pattern}"
)


def style_of(pieces: Iterable[str]) -> Style:
    """Return the style of most pieces of a vocabulary or a text."""
    counts = dict.fromkeys(MARKS, 0)
    for piece in pieces:
        for style, bears in MARKS.items():
            counts[style] += bears(piece)
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


def marked(
    pieces: Sequence[str],
    style: Style,
    *,
    special: Collection[int] = (),
    starts: Sequence[bool] | None = None,
    after: str | None = None,
) -> tuple[str, ...]:
    """Return consecutive pieces with `▁` where a word starts, and bytes as the text they spell.

    Args:
        special: positions of special tokens, which get no mark.
        starts: whether a word starts at each piece, if known from the text.
        after: the piece before the first; None at the beginning, or after a special token.
    """
    written, goes_on = [], after is not None and _goes_on(after, style)
    for at, piece in enumerate(pieces):
        if at in special:
            written.append(visible(piece))
            goes_on = False
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
            begins = not (goes_on or piece.startswith(JOINER))
        written.append(START + body if begins else body)
        goes_on = _goes_on(piece, style)
    return tuple(written)


def _goes_on(piece: str, style: Style) -> bool:
    """Return whether the word of a piece continues after it."""
    if style == "word_end":
        return not piece.endswith(ENDS)
    return style == "joined" and piece != JOINS[0] and piece.endswith(JOINS)


def _body(piece: str, style: Style) -> str:
    """Return the text of a piece without its mark; a mark alone stays."""
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
    """Return text with `▁` for spaces, and as bytes, `<0x0A>`, controls and breaks of lines.

    Args: text: lone surrogates from U+DC80 stand for bytes that are not UTF-8.
    """
    written = []
    for character in text:
        if character == " ":
            written.append(START)
        elif "\udc80" <= character <= "\udcff":
            written.append(f"<0x{ord(character) - 0xDC00:02X}>")
        elif unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp"):
            written += (f"<0x{byte:02X}>" for byte in character.encode("utf-8", "surrogatepass"))
        else:
            written.append(character)
    return "".join(written)
