"""Split typed English into the Treebank's words: `don't (really).` is `do n't ( really ) .`"""

import re

from transformer.trees.tree import PUNCTUATION

#: Abbreviations that keep their full stop.
_ABBREVIATIONS = frozenset({
    "mr.", "mrs.", "ms.", "dr.", "prof.", "st.", "vs.", "etc.", "e.g.", "i.e.", "jr.", "sr.",
    "co.", "inc.", "ltd.", "no.", "fig.", "approx.",
})  # fmt: skip
_BEFORE = ("``", *"\"“”‘'([{<$£€#")
_AFTER = ("...", "''", *"…\"“”’')]}>,;:!?%")
_CLITIC = re.compile(r"(n['’]t|['’](?:s|re|ve|ll|d|m))$", re.IGNORECASE)
_HYPHEN = re.compile(r"(?<=[^\W\d_])(-)(?=[^\W\d_])")
#: Words of several marks.
_WHOLE = frozenset({"``", "''", "...", "--"})


#: Tags of punctuation with one meaning.
_TAGS = {
    ",": ",", ".": ".", "?": ".", "!": ".", ":": ":", ";": ":", "--": ":", "—": ":", "…": ":",
    "“": "``", "”": "''", "``": "``", "''": "''",
    "(": "-LRB-", "[": "-LRB-", ")": "-RRB-", "]": "-RRB-",
}  # fmt: skip


def agreeing_tag(tag: str, word: str) -> str:
    """Return a tag that fits a word: punctuation has fixed tags, which no other word has."""
    if word in _TAGS:
        return _TAGS[word]
    marks = tag in PUNCTUATION or tag in ("-LRB-", "-RRB-")
    return "NN" if marks and any(map(str.isalnum, word)) else tag


def split_words(text: str) -> list[str]:
    """Return the words of a sentence, with separate punctuation and clitics.

    Split text does not change.
    """
    chunks = text.split()
    words: list[str] = []
    for index, chunk in enumerate(chunks):
        words += _split(chunk, last=index == len(chunks) - 1)
    return words


def _split(chunk: str, *, last: bool) -> list[str]:
    before, after = [], []
    while len(chunk) > 1 and chunk not in _WHOLE and not _CLITIC.fullmatch(chunk):
        if mark := next(filter(chunk.startswith, _BEFORE), ""):
            before.append(mark)
            chunk = chunk.removeprefix(mark)
            continue
        mark = next(filter(chunk.endswith, _AFTER), "")
        if not mark and last and chunk.endswith(".") and chunk.strip("."):
            mark = "" if chunk.lower() in _ABBREVIATIONS else "."
        if not mark and (match := _CLITIC.search(chunk[-3:])):  # all of it would take long
            mark = match[1]
        if not mark:
            break
        after.append(mark)
        chunk, last = chunk.removesuffix(mark), False
    words = parts = _HYPHEN.split(chunk)
    if len(parts) > 1:
        words = [word for part in parts for word in _split(part, last=False)]
    return [*before, *words, *reversed(after)]
