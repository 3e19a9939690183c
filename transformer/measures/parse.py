"""Parse trees read from traces, with the decoder row that wrote each bracket."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from transformer.trace.records import Trace
from transformer.trees.tree import CLOSE, OPEN, TAG, Rebuilt, Tree, agreeing_tag, is_symbol, rebuild
from transformer.types import Floats

if TYPE_CHECKING:
    from transformer.text.tokenizer import Tokenizer

_START = "▁"


@dataclass(frozen=True)
class Parse:
    """A parsed sentence."""

    rebuilt: Rebuilt  # tree and repairs
    items: tuple[str, ...]  # symbols and words written by the model
    complete: bool  # False if cut at the length limit

    @property
    def tree(self) -> Tree:
        """The parse tree."""
        return self.rebuilt.tree

    def __str__(self) -> str:
        """Return the bracketed tree below ROOT."""
        return f"(ROOT {self.tree})"


def parsed(
    ids: Sequence[int], words: Sequence[str], spelling: "Tokenizer", *, complete: bool
) -> Parse:
    """Return the parse spelled by token ids, without `</s>`."""
    items = tuple(item for item, _ in _items(ids, spelling))
    rebuilt = rebuild(items, ["".join(_spelled(word, spelling)) for word in words])
    return Parse(replace(rebuilt, tree=_with_words(rebuilt.tree, iter(words))), items, complete)


def _spelled(word: str, spelling: "Tokenizer") -> list[str]:
    """Return the items in a copied word: one, unless normalisation splits it."""
    return [item for item, _ in _items(spelling.encode(word), spelling)] or [word]


def _with_words(tree: Tree, words: Iterator[str]) -> Tree:
    if tree.word is None:
        return replace(tree, children=tuple(_with_words(child, words) for child in tree.children))
    word = next(words)
    return Tree(agreeing_tag(tree.label, word), word=word)


@dataclass(frozen=True)
class Constituent:
    """A phrase or word in a tree."""

    label: str  # phrase label or word tag
    first: int  # its first word
    end: int  # one past its last word
    parent: int  # index of the enclosing phrase; -1 at the root
    row: int | None  # decoder row that predicts its symbol; None if added in repair
    closed: int | None  # decoder row that predicts a phrase's closing bracket; None for a word
    is_word: bool


@dataclass(frozen=True)
class Reading:
    """The parse tree of a trace."""

    parse: Parse  # tree and repairs
    nodes: tuple[Constituent, ...]  # in pre-order
    word_of: tuple[int, ...]  # word of each source token; -1 for `</s>`


def read_parse(trace: Trace, words: Sequence[str], spelling: "Tokenizer") -> Reading:
    """Read the parse of `source_text(words)` from a trace; `spelling` is the tokenizer."""
    ids = trace.predicted_ids[: trace.n_words]
    parse = parsed(ids, words, spelling, complete=trace.complete)
    items, rows = parse.items, [row for _, row in _items(ids, spelling)]
    spans = parse.rebuilt.spans
    used = [at for at, item in enumerate(items) if is_symbol(item) and spans[at] is not None]
    opened: dict[int, int | None] = {}  # closing row by opening row of each phrase
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
    """Return the log-probability of each node in nats, [nodes], or NaN if its symbol was added.

    A word's probability is its tag's; a phrase's is the product over its two brackets.
    """
    log_probs = np.full(len(reading.nodes), np.nan, np.float32)
    for index, node in enumerate(reading.nodes):
        if node.row is not None and (node.is_word or node.closed is not None):
            log_probs[index] = trace.log_probs[node.row]
            log_probs[index] += 0 if node.closed is None else trace.log_probs[node.closed]
    return log_probs


#: Slope and shift of phrase log-odds, fitted to parsing-gum's parses of every other sentence in
#: GUM dev; `benchmarks/certainty.py` prints them.
SLOPE, SHIFT = 0.525, -0.82


def calibrated(log_probs: Floats) -> Floats:
    """Return the share of phrases with these `confidences` that are in GUM's trees; NaN stays."""
    certain = np.minimum(log_probs.astype(np.float64), -1e-6)
    log_odds = SLOPE * (certain - np.log(-np.expm1(certain))) + SHIFT
    shares: Floats = (1 / (1 + np.exp(-log_odds))).astype(np.float32)
    return shares


def bracket_weights(reading: Reading, weights: Floats) -> Floats:
    """Return each node's cross-attention to words and `</s>`, [nodes, words + 1].

    A word's weight is summed over its tokens. Rows are NaN for nodes that the model did not write.

    Args: weights: [T, S].
    """
    n_words = reading.nodes[0].end
    by_word = np.full((len(reading.nodes), n_words + 1), np.nan, np.float32)
    for index, node in enumerate(reading.nodes):
        if node.row is not None:
            by_word[index] = 0
            np.add.at(by_word[index], list(reading.word_of), weights[node.row])
    return by_word


def _items(ids: Sequence[int], spelling: "Tokenizer") -> list[tuple[str, int]]:
    """Join pieces into symbols and words, each with the position of its first piece."""
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
