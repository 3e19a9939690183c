"""A trace of a parser, read as a tree: which row of the decoder wrote which bracket."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from transformer.trace.records import Trace
from transformer.trees.symbols import CLOSE, OPEN, TAG, Rebuilt, is_symbol, rebuild
from transformer.trees.tree import Tree
from transformer.trees.words import agreeing_tag
from transformer.types import Floats

if TYPE_CHECKING:
    from transformer.text.tokenizer import Tokenizer

_START = "▁"


@dataclass(frozen=True)
class Parse:
    """A sentence's tree."""

    rebuilt: Rebuilt  # the tree, and what had to be repaired
    items: tuple[str, ...]  # symbols and words, as the model wrote them
    complete: bool  # False if the length limit cut them off

    @property
    def tree(self) -> Tree:
        """The tree."""
        return self.rebuilt.tree

    def __str__(self) -> str:
        """Return the bracketed text, with ROOT above the tree."""
        return f"(ROOT {self.tree})"


def parsed(
    ids: Sequence[int], words: Sequence[str], spelling: Tokenizer, *, complete: bool
) -> Parse:
    """Return the parse that token ids, without `</s>`, stand for."""
    items = tuple(item for item, _ in _items(ids, spelling))
    rebuilt = rebuild(items, ["".join(_spelled(word, spelling)) for word in words])
    tree = _with_words(rebuilt.tree, iter(words))
    return Parse(replace(rebuilt, tree=tree), items, complete)


def _spelled(word: str, spelling: Tokenizer) -> list[str]:
    """Return the items that a copy of a word consists of: one, unless it normalises to several."""
    return [item for item, _ in _items(spelling.encode(word), spelling)] or [word]


def _with_words(tree: Tree, words: Iterator[str]) -> Tree:
    if tree.word is None:
        return replace(tree, children=tuple(_with_words(child, words) for child in tree.children))
    word = next(words)
    return Tree(agreeing_tag(tree.label, word), word=word)


@dataclass(frozen=True)
class Constituent:
    """A phrase or a word of the tree."""

    label: str  # of the phrase, or the word's tag
    #: first, end: its words, (first, one past the last)
    first: int
    end: int
    parent: int  # index of the phrase around it; -1 for the whole
    #: the decoder's row that predicts its symbol; None if the symbol was added in repair
    row: int | None
    closed: int | None  # the same for a phrase's closing bracket; None for a word
    is_word: bool  # whether it is a word


@dataclass(frozen=True)
class Reading:
    """The tree of a trace."""

    parse: Parse  # the tree and its repairs
    #: phrases and words in the order in which they begin, a phrase before what is in it
    nodes: tuple[Constituent, ...]
    word_of: tuple[int, ...]  # for every source token its word; -1 for `</s>`


def read_parse(trace: Trace, words: Sequence[str], spelling: Tokenizer) -> Reading:
    """Read a trace of `source_text(words)`.

    Args: spelling: the model's tokenizer.
    """
    ids = trace.predicted_ids[: trace.n_words]
    parse = parsed(ids, words, spelling, complete=trace.complete)
    items, rows = parse.items, [row for _, row in _items(ids, spelling)]
    spans = parse.rebuilt.spans
    used = [at for at, item in enumerate(items) if is_symbol(item) and spans[at] is not None]
    opened: dict[int, int | None] = {}  # by the row that opens a phrase, the one that closes it
    stack: list[int] = []
    for at in used:
        if items[at].startswith(OPEN):
            stack.append(rows[at])
            opened[rows[at]] = None
        elif items[at] == CLOSE:
            opened[stack.pop()] = rows[at]
    phrases = iter(opened.items())
    tagged = {spans[at]: rows[at] for at in used if items[at].startswith(TAG)}
    nodes: list[Constituent] = []

    def visit(tree: Tree, first: int, parent: int) -> None:
        index, end, is_word = len(nodes), first + len(tree.words), tree.word is not None
        added = parent == -1 and len(opened) < _n_phrases(parse.tree)
        row, closed = (
            (tagged.get((first, end)), None) if is_word
            else (None, None) if added else next(phrases)
        )  # fmt: skip
        nodes.append(Constituent(tree.label, first, end, parent, row, closed, is_word))
        for child in tree.children:
            visit(child, first, index)
            first += len(child.words)

    visit(parse.tree, 0, -1)
    word, word_of = -1, []
    for place, piece in enumerate(trace.src_tokens):
        word += piece.startswith(_START) or place == 0
        word_of.append(-1 if place in trace.src_special else min(word, len(words) - 1))
    return Reading(parse, tuple(nodes), tuple(word_of))


def confidences(reading: Reading, trace: Trace) -> Floats:
    """Return the log-probability of every node in nats, [nodes]; NaN where a symbol was added.

    A word has the probability of its tag; a phrase, of both its brackets.
    """
    log_probs = np.full(len(reading.nodes), np.nan, np.float32)
    for index, node in enumerate(reading.nodes):
        if node.row is not None and (node.is_word or node.closed is not None):
            log_probs[index] = trace.log_probs[node.row]
            log_probs[index] += 0 if node.closed is None else trace.log_probs[node.closed]
    return log_probs


#: Slope and shift of a phrase's log-odds, fitted to every other sentence of GUM dev as
#: parsing-gum parses it; `benchmarks/certainty.py` prints them.
SLOPE, SHIFT = 0.525, -0.82


def calibrated(log_probs: Floats) -> Floats:
    """Return the share of phrases with these `confidences` that GUM's trees have too; NaN stays."""
    certain = np.minimum(log_probs.astype(np.float64), -1e-6)
    log_odds = SLOPE * (certain - np.log(-np.expm1(certain))) + SHIFT
    shares: Floats = (1 / (1 + np.exp(-log_odds))).astype(np.float32)
    return shares


def bracket_weights(reading: Reading, weights: Floats) -> Floats:
    """Return the cross-attention of every node on the words and `</s>`, [nodes, words + 1].

    A word's weight is the sum of its tokens'. The row of a node that the model did not write is
    NaN.

    Args: weights: [T, S].
    """
    n_words = reading.nodes[0].end
    by_word = np.full((len(reading.nodes), n_words + 1), np.nan, np.float32)
    for index, node in enumerate(reading.nodes):
        if node.row is not None:
            by_word[index] = 0
            np.add.at(by_word[index], list(reading.word_of), weights[node.row])
    return by_word


def _items(ids: Sequence[int], spelling: Tokenizer) -> list[tuple[str, int]]:
    """Join pieces to symbols and words, each with the place of its first piece."""
    items: list[tuple[str, int]] = []
    for place, index in enumerate(ids):
        piece = spelling.pieces[index]
        if piece.startswith(_START) or not items or items[-1][0] == CLOSE:
            items.append((piece.removeprefix(_START), place))
        else:
            text, first = items.pop()
            items.append((text + piece, first))
    return [item for item in items if item[0]]


def _n_phrases(tree: Tree) -> int:
    return (tree.word is None) + sum(map(_n_phrases, tree.children))
