"""Phrase-structure trees in the Penn Treebank's bracketed text, and typed English in its words.

`don't (really).` is `do n't ( really ) .`
"""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

#: Labels of the node above a sentence's tree.
ROOTS = ("", "ROOT", "TOP", "S1")
#: Tag of an empty element, such as the trace of a moved phrase.
TRACE_TAG = "-NONE-"
#: Tags of punctuation, which scores leave out.
PUNCTUATION = frozenset({",", ":", "``", "''", "."})
#: Maximum depth of a tree that is read; gold ones have up to 40 levels.
MAX_DEPTH = 400
#: Brackets in a text stand for the tree's, so the Treebank spells out brackets in the sentence.
ESCAPES = {"(": "-LRB-", ")": "-RRB-"}

_PARTS = re.compile(r"[()]|[^\s()]+")


class TreeError(ValueError):
    """Text that is not a tree; the message gives the position."""


@dataclass(frozen=True)
class Tree:
    """A phrase, or a word with its tag."""

    label: str  # phrase label, such as NP, or part of speech
    children: "tuple[Tree, ...]" = ()  # the phrases and words inside; none for a word
    word: str | None = None  # the word; None for a phrase

    def leaves(self) -> "Iterator[Tree]":
        """Yield the words in order."""
        if self.word is not None:
            yield self
        for child in self.children:
            yield from child.leaves()

    @property
    def words(self) -> list[str]:
        """The sentence."""
        return [leaf.word or "" for leaf in self.leaves()]

    def __str__(self) -> str:
        """Return the bracketed text."""
        inside = " ".join(map(str, self.children))
        if self.word is not None:
            inside = "".join(ESCAPES.get(character, character) for character in self.word)
        return f"({self.label} {inside})"


def read_tree(text: str) -> Tree:
    """Read one bracketed tree. Raises `TreeError`."""
    parts = deque(_PARTS.findall(text))
    if parts and parts[0] != "(":
        raise TreeError(f"{parts[0]!r} before the first bracket")
    if not parts:
        raise TreeError("no tree")
    tree = _read(parts, 1)
    if parts:
        raise TreeError(f"{parts[0]!r} after the end of the tree")
    return tree


def _read(parts: deque[str], depth: int) -> Tree:
    """Read from an opening bracket to its closing bracket."""
    if depth > MAX_DEPTH:
        raise TreeError(f"more than {MAX_DEPTH} nested phrases")
    parts.popleft()
    label = parts.popleft() if parts and parts[0] not in "()" else ""
    children: list[Tree] = []
    while parts and parts[0] == "(":
        children.append(_read(parts, depth + 1))
    part = parts.popleft() if parts else None
    if part not in (")", None) and not children and parts and parts[0] == ")":
        parts.popleft()
        for character, spelled in ESCAPES.items():
            part = part.replace(spelled, character)
        return Tree(label, word=part)
    if part is None:
        raise TreeError(f"{depth} open brackets at the end")
    if part != ")":
        raise TreeError(f"{part!r} has no tag of its own")
    if not children:
        raise TreeError(f"an empty bracket ({label})")
    return Tree(label, tuple(children))


def simplified(tree: Tree) -> Tree:
    """Drop traces, function tags and indices (NP-SBJ-1 becomes NP), and the node above the tree.

    A node above several phrases stays, as S. Raises `TreeError` without a word.
    """
    clean = _kept(tree)
    if clean is None:
        raise TreeError("no word")
    while clean.label in ROOTS and len(clean.children) == 1:
        clean = clean.children[0]
    return Tree("S", clean.children, clean.word) if clean.label in ROOTS else clean


def _kept(tree: Tree) -> Tree | None:
    if tree.word is not None:
        return None if tree.label == TRACE_TAG else tree
    children = tuple(clean for child in tree.children if (clean := _kept(child)) is not None)
    plain = tree.label if tree.label[:1] == "-" else re.split(r"[-=|]", tree.label, maxsplit=1)[0]
    return Tree(plain, children) if children else None


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
