"""Phrase-structure trees in bracketed text, typed English, and sequences of symbols (section 6.3).

`don't (really).` is `do n't ( really ) .`

`⟨S ⟨NP ·DT The ·NN cat ⟩ ⟨VP ·VBZ sits ⟩ ·. . ⟩`: a label opens a phrase, a bracket closes it, and
a tag precedes every word. Copied words show the model its position in the sentence.
"""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

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


#: Marks of a phrase's start, its end, and a tag, which ordinary text does not contain.
OPEN, CLOSE, TAG = "⟨", "⟩", "·"
#: Tag of a word, and label of a phrase, that the sequence does not name.
MISSING_TAG, MISSING_LABEL = "X", "S"


def symbols(tree: Tree) -> list[str]:
    """Return the sequence of a tree."""
    if tree.word is not None:
        return [f"{TAG}{tree.label}", tree.word]
    return [f"{OPEN}{tree.label}", *(s for child in tree.children for s in symbols(child)), CLOSE]


def is_symbol(item: str) -> bool:
    """Return True for a symbol, False for a word."""
    return item == CLOSE or (len(item) > 1 and item[0] in (OPEN, TAG))


@dataclass(frozen=True)
class Rebuilt:
    """The tree of a sequence."""

    tree: Tree  # over all the words
    #: for every item of the sequence its words, (first, one past the last): the words of the phrase
    #: that a symbol opens or closes, or the word of a tag; None for an item left out
    spans: tuple[tuple[int, int] | None, ...]
    repairs: tuple[str, ...]  # changes that made it a tree, in words; empty if it was one


def rebuild(sequence: Sequence[str], words: Sequence[str]) -> Rebuilt:
    """Build the tree of a sequence over `words`, repaired if necessary.

    Copied words are matched with the words. Missing words join the phrase open before the next
    copy, with a tag X. Copies without a match, brackets that close nothing and phrases without
    words are dropped. Open phrases are closed at the end, and several trees are joined under one S.

    Raises: `ValueError` if there are no words.
    """
    if not words:
        raise ValueError("a tree needs a word")
    builder = _Builder(words, len(sequence))
    copies = [at for at, item in enumerate(sequence) if not is_symbol(item)]
    matcher = SequenceMatcher(None, [sequence[at] for at in copies], words, autojunk=False)
    places: dict[int, int] = {}  # word index of each copied word in the sequence
    for kind, a, b, c, d in matcher.get_opcodes():
        # A wrongly copied word still counts as that word if there are as many of both.
        if kind == "equal" or (kind == "replace" and b - a == d - c):
            places.update(zip(copies[a:b], range(c, d), strict=True))
    tag = MISSING_TAG, -1
    for at, item in enumerate(sequence):
        builder.counts["tags without a word"] += tag[1] >= 0 and is_symbol(item)
        if item == CLOSE:
            builder.close(at)
        elif not is_symbol(item):
            builder.add(places.get(at), tag, at, item)
        elif not item.startswith(TAG):
            builder.open(item[1:], at)
        tag = (item[1:], at) if is_symbol(item) and item[0] == TAG else (MISSING_TAG, -1)
    builder.counts["tags without a word"] += tag[1] >= 0
    return builder.finish()


@dataclass
class _Phrase:
    label: str
    opened: int
    first: int
    children: list[Tree]


class _Builder:
    def __init__(self, words: Sequence[str], length: int) -> None:
        self.words, self.n_words = words, 0
        self.stack = [_Phrase("", -1, 0, [])]
        self.spans: list[tuple[int, int] | None] = [None] * length
        self.closers: list[tuple[int, int]] = []  # indices of a closing item and its opening item
        self.counts = dict.fromkeys(
            ("words left out", "extra words", "words copied wrongly", "words without a tag",
             "tags without a word", "brackets never closed", "brackets that closed nothing",
             "phrases without words"),
            0,
        )  # fmt: skip

    def open(self, label: str, at: int) -> None:
        self.stack.append(_Phrase(label or MISSING_LABEL, at, self.n_words, []))

    def add(self, place: int | None, tag: tuple[str, int], at: int, copy: str) -> None:
        if place is None or place < self.n_words:
            self.counts["extra words"] += 1
            return
        self._fill(place)
        label, tagged = tag
        self.counts["words without a tag"] += tagged < 0
        self.counts["words copied wrongly"] += copy != self.words[place]
        self.stack[-1].children.append(Tree(label, word=self.words[place]))
        self.n_words = place + 1
        self.spans[at] = (place, place + 1)
        if tagged >= 0:
            self.spans[tagged] = (place, place + 1)

    def _fill(self, end: int) -> None:
        missing = range(self.n_words, end)
        self.counts["words left out"] += len(missing)
        self.stack[-1].children += [Tree(MISSING_TAG, word=self.words[place]) for place in missing]
        self.n_words = max(self.n_words, end)

    def close(self, at: int | None) -> None:
        if len(self.stack) == 1:
            self.counts["brackets that closed nothing"] += 1
            return
        phrase = self.stack.pop()
        if at is not None:
            self.closers.append((at, phrase.opened))
        if not phrase.children:
            self.counts["phrases without words"] += 1
            return
        self.stack[-1].children.append(Tree(phrase.label, tuple(phrase.children)))
        self.spans[phrase.opened] = (phrase.first, self.n_words)

    def finish(self) -> Rebuilt:
        top = self.stack[0].children
        self.counts["brackets never closed"] = len(self.stack) - 1
        if self.n_words < len(self.words) and len(self.stack) == 1 and len(top) == 1:
            # The finished tree takes in what it left out, at its end.
            whole = top[0]
            if whole.word is None:
                opened = next(i for i, span in enumerate(self.spans) if span is not None)
                self.stack.append(_Phrase(whole.label, opened, 0, list(whole.children)))
                top.pop()
        self._fill(len(self.words))
        while len(self.stack) > 1:
            self.close(None)
        joined = len(top) != 1
        tree = Tree(MISSING_LABEL, tuple(top)) if joined else top[0]
        for closer, opener in self.closers:
            self.spans[closer] = self.spans[opener]
        repairs = [f"{count} {what}" for what, count in self.counts.items() if count]
        if joined:
            repairs.append("no single phrase over all words")
        return Rebuilt(tree, tuple(self.spans), tuple(repairs))
