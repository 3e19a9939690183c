"""Trees as sequences of symbols and words, and back (section 6.3; Vinyals et al. 2015).

`⟨S ⟨NP ·DT The ·NN cat ⟩ ⟨VP ·VBZ sits ⟩ ·. . ⟩`: a label opens a phrase, a bracket closes it, and
a tag precedes every word. Copied words show the model its position in the sentence.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from transformer.trees.tree import Tree

#: Marks of a phrase's start, its end, and a tag, which ordinary text does not contain.
OPEN, CLOSE, TAG = "⟨", "⟩", "·"
#: Tag of a word, and label of a phrase, that the sequence does not name.
MISSING_TAG, MISSING_LABEL = "X", "S"


def symbols(tree: Tree) -> list[str]:
    """Return the sequence of a tree."""
    return list(_written(tree))


def _written(tree: Tree) -> Iterator[str]:
    if tree.word is not None:
        yield f"{TAG}{tree.label}"
        yield tree.word
        return
    yield f"{OPEN}{tree.label}"
    for child in tree.children:
        yield from _written(child)
    yield CLOSE


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
