"""Split typed English into the Treebank's words: `don't (really).` is `do n't ( really ) .`"""

from __future__ import annotations

import re

from transformer.trees.tree import PUNCTUATION

#: Abbreviations that keep their full stop.
_ABBREVIATIONS = frozenset({
    "mr.", "mrs.", "ms.", "dr.", "prof.", "st.", "vs.", "etc.", "e.g.", "i.e.", "jr.", "sr.",
    "co.", "inc.", "ltd.", "no.", "fig.", "approx.",
})  # fmt: skip
_BEFORE = re.compile(r"^([\"“”‘'(\[{<$£€#]|``)(.+)$")
_AFTER = re.compile(r"^(.+?)(\.\.\.|…|[\"“”’')\]}>,;:!?%]|'')$")
_CLITIC = re.compile(r"^(.+?)(n['’]t|['’](?:s|re|ve|ll|d|m))$", re.IGNORECASE)
_HYPHEN = re.compile(r"(?<=[^\W\d_])(-)(?=[^\W\d_])")
#: Words of several marks.
_WHOLE = frozenset({"``", "''", "...", "--"})
_SINGLE_CLITIC = re.compile(r"^(n['’]t|['’](?:s|re|ve|ll|d|m))$", re.IGNORECASE)


#: Tags of punctuation with one meaning.
_TAGS = {
    ",": ",", ".": ".", "?": ".", "!": ".", ":": ":", ";": ":", "--": ":", "—": ":", "…": ":",
    "“": "``", "”": "''", "``": "``", "''": "''",
    "(": "-LRB-", "[": "-LRB-", ")": "-RRB-", "]": "-RRB-",
}  # fmt: skip


def agreeing_tag(tag: str, word: str) -> str:
    """Return the tag of a word: its own if it is punctuation, and never punctuation's otherwise."""
    if word in _TAGS:
        return _TAGS[word]
    marks = tag in PUNCTUATION or tag in ("-LRB-", "-RRB-")
    return "NN" if marks and any(map(str.isalnum, word)) else tag


def split_words(text: str) -> list[str]:
    """Return the words of a sentence; punctuation and clitics are words of their own.

    Text that is split already stays as it is.
    """
    chunks = text.split()
    words: list[str] = []
    for index, chunk in enumerate(chunks):
        words += _split(chunk, last=index == len(chunks) - 1)
    return words


def _split(chunk: str, *, last: bool) -> list[str]:
    if len(chunk) == 1 or chunk in _WHOLE or _SINGLE_CLITIC.match(chunk):
        return [chunk]
    if match := _BEFORE.match(chunk):
        return [match[1], *_split(match[2], last=last)]
    if match := _AFTER.match(chunk):
        return [*_split(match[1], last=False), match[2]]
    if last and chunk.endswith(".") and chunk.strip(".") and chunk.lower() not in _ABBREVIATIONS:
        return [*_split(chunk[:-1], last=False), "."]
    if (match := _CLITIC.match(chunk)) and match[1]:
        return [*_split(match[1], last=False), match[2]]
    parts = _HYPHEN.split(chunk)
    if len(parts) == 1:
        return parts
    return [word for part in parts for word in _split(part, last=False)]
