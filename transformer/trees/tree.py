"""Phrase-structure trees, in the bracketed text of the Penn Treebank."""

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
        raise TreeError(f"more than {MAX_DEPTH} phrases inside each other")
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
