"""Sentences and their trees, as pairs of texts (section 6.3)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from transformer.training.data import Corpus, DataError, Pair, find_file, read_lines
from transformer.trees.symbols import is_symbol, symbols
from transformer.trees.tree import Tree, TreeError, read_tree, simplified

#: The corpus, and the "language" of its targets.
GUM, TREE = "gum", "tree"


def read_treebank(path: Path) -> list[Tree]:
    """Read trees, one a line, simplified. Raises `DataError` naming the line."""
    path, trees = find_file(path), []
    for number, line in enumerate(read_lines(path), 1):
        if line.strip():
            try:
                trees.append(simplified(read_tree(line)))
            except TreeError as error:
                raise DataError(f"{path}: line {number}: {error}") from None
    return trees


def pair(tree: Tree) -> Pair:
    """Return the words of a tree and its symbols, each in one line."""
    return " ".join(tree.words), " ".join(symbols(tree))


def gum(folder: Path) -> Corpus:
    """Read GUM's train.ptb, and dev.ptb for validation (Zeldes 2017); single words are left out."""

    def part(name: str) -> tuple[Pair, ...]:
        return tuple(pair(tree) for tree in read_treebank(folder / name) if tree.children)

    return Corpus(part("train.ptb"), part("dev.ptb"))


def words_only(written: Pair) -> Pair:
    """Return a pair of `pair` without the symbols."""
    source, tree = written
    return source, " ".join(item for item in tree.split() if not is_symbol(item))


def tree_symbols(corpus: Corpus) -> list[str]:
    """Return the symbols of the training trees, the commonest first."""
    counts = Counter(item for _, tree in corpus.train for item in tree.split() if is_symbol(item))
    return sorted(counts, key=lambda symbol: (-counts[symbol], symbol))
