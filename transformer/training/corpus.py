"""Load the text of a recipe, its tokenizer, and token ids."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from transformer.checkpoint.reference import ModelRef
from transformer.files.atomic import write_atomic
from transformer.models.one_stack.files import MASK
from transformer.text.tokenizer import Tokenizer, train_tokenizer, with_symbols
from transformer.training.data import (
    Corpus,
    DataError,
    MissingFileError,
    Pair,
    corpus_folder,
    find_file,
    merge,
    multi30k,
    read_csv,
    read_lines,
    read_parallel,
    read_tsv,
    reversal,
    source_key,
    split_by_source,
    tatoeba,
)
from transformer.training.download import HOMES
from transformer.training.recipe import DataRecipe, Recipe
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


#: Columns: topic, English, German, French. "[a|b]" are alternatives, also nested; a bar outside of
#: brackets separates whole sentences.
TYPED_SENTENCES = Path(__file__).with_name("typed_sentences.tsv")

#: Sentences used by tests and pages, which no training text has as a source.
HELD_OUT = (
    "The animal didn't cross the street because it was too tired.",
    "The animal didn't cross the street because it was too wide.",
    "The cat sat on the mat because it was tired.",
)
#: `HELD_OUT` as German sources.
_HELD_OUT_GERMAN = (
    "Das Tier überquerte die Straße nicht, weil es zu müde war.",
    "Das Tier überquerte die Straße nicht, weil sie zu breit war.",
    "Die Katze saß auf der Matte, weil sie müde war.",
)


@cache
def excluded_sources(typed: Path | None = None) -> frozenset[str]:
    """Return the keys (see `source_key`) of sentences that no training text has as a source."""
    file = typed or TYPED_SENTENCES
    lines = [line.split("\t")[1:] for line in read_lines(file)[1:]] if file.is_file() else []
    return frozenset(
        source_key(sentence)
        for cell in (*itertools.chain(*lines), *HELD_OUT, *_HELD_OUT_GERMAN)
        for sentence in spelled_out(cell)
    )


def spelled_out(text: str) -> list[str]:
    """Return every sentence that a text with alternatives stands for: "[a|b] c" is "a c", "b c"."""
    return _alternatives(iter(text))


def _alternatives(signs: Iterator[str]) -> list[str]:
    """Spell out a text up to its end or to a closing bracket."""
    done, last = list[str](), [""]
    for sign in signs:
        if sign == "]":
            break
        if sign == "|":
            done, last = done + last, [""]
        else:
            tails = _alternatives(signs) if sign == "[" else [sign]
            last = [head + tail for head in last for tail in tails]
    return done + last


log = logging.getLogger(__name__)

#: Corpora that modules of `recipes/tools` make, each by its `pairs`; they hold nothing out.
MADE = ("agreement", "phrasebook", "wiktionary")

#: Token ids of many sentences, sources and targets in the same order, without special tokens.
Encoded = tuple[list[list[int]], list[list[int]]]


def load_corpus(recipe: DataRecipe, folder: Path) -> Corpus:
    """Read the text of a recipe from `folder`, without the sources that are `excluded_sources`.

    Raises: `DataError` naming the file, and how to get it if it is missing.
    """
    read = {name: read_corpus(name, recipe, folder) for name in dict.fromkeys(recipe.corpora)}
    corpora = [*read.values()]
    # A repeated corpus holds out its pairs once. A phrasebook refills its slots.
    for name, times in Counter(recipe.corpora).items():
        for turn in range(1, times):
            again = read_corpus(name, recipe, folder, turn) if name == "phrasebook" else read[name]
            corpora.append(Corpus(again.train))
    if recipe.val is not None:
        corpora.append(Corpus((), _pairs(folder / recipe.val, recipe)))
    corpora += [Corpus(_pairs(folder / path, recipe)) for path in recipe.train_only or ()]
    corpus, excluded = merge(corpora), excluded_sources()
    train = tuple(pair for pair in corpus.train if source_key(pair[0]) not in excluded)
    if not train:
        none = "all pairs are held out" if any(each.train for each in corpora) else "no pairs"
        raise DataError(f"{folder}: nothing to train on in {', '.join(recipe.corpora)}: {none}")
    return dataclasses.replace(corpus, train=train)


def one_side(corpus: Corpus) -> Corpus:
    """Return each source once, as source and as target: text for a model of one stack."""

    def alone(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
        return tuple((text, text) for text in dict.fromkeys(src for src, _ in pairs))

    tests = {name: alone(pairs) for name, pairs in corpus.tests.items()}
    return Corpus(alone(corpus.train), alone(corpus.val), tests)


def load_held_out(recipe: DataRecipe, folder: Path) -> Corpus:
    """Read the validation and test text of a recipe; text only for training may be missing.

    Raises: `DataError` naming the file.
    """
    corpora = tuple(name for name in recipe.corpora if name not in MADE)
    held = load_corpus(dataclasses.replace(recipe, corpora=corpora, train_only=None), folder)
    return Corpus((), held.val, held.tests)


def read_corpus(name: str, recipe: DataRecipe, folder: Path, turn: int = 0) -> Corpus:
    """Read one corpus of a recipe. Args: turn: counts how often its name came before.

    Raises: `DataError`.
    """
    if name == "reversal":
        return reversal()
    if name in MADE:
        try:
            tool = importlib.import_module(f"recipes.tools.{name}")
        except ModuleNotFoundError:
            raise DataError(
                f"{name}: recipes/tools makes it, which only the repository has"
            ) from None
        return Corpus(tuple(tool.pairs(recipe, folder, turn)))
    if name == GUM:
        if recipe.tgt != TREE:
            raise DataError(f"gum holds trees: [data] tgt should be {TREE!r}, not {recipe.tgt!r}")
        return gum(corpus_folder(GUM, folder))
    if name in HOMES:
        read = {"multi30k": multi30k, "tatoeba": tatoeba}[name]
        try:
            return read(corpus_folder(name, folder), recipe.src, recipe.tgt)
        except MissingFileError as error:
            raise MissingFileError(
                f"{error}; use --download to fetch {name}, or --data for a folder that contains it"
            ) from None
    pairs = _pairs(folder / name, recipe)
    if recipe.val is not None:
        return Corpus(pairs)
    train, val, test = split_by_source(pairs, (0.985, 0.005, 0.01))
    return Corpus(train, val, {f"{Path(name).name.partition('.')[0]}_test": test})


def _pairs(path: Path, recipe: DataRecipe) -> tuple[Pair, ...]:
    ending = Path(path.name.removesuffix(".gz")).suffix
    if ending == ".tsv":
        return read_tsv(path)
    if ending == ".csv":
        return read_csv(path, recipe.src, recipe.tgt)
    return read_parallel(Path(f"{path}.{recipe.src}"), Path(f"{path}.{recipe.tgt}"))


def make_tokenizer(recipe: Recipe, corpus: Corpus, path: Path) -> Tokenizer:
    """Read the joint tokenizer at `path`; if missing, train it or copy a checkpoint's.

    Where the targets are trees, their symbols are added to it, and what is learned is the words.

    Raises: `TokenizerError`.
    """
    if path.exists():
        return Tokenizer.load(path)
    settings, init = recipe.tokenizer, recipe.training.init
    trees = recipe.data.tgt == TREE
    if init and (trees or not recipe.training.grow):
        # Weights are meaningless with any other tokenizer.
        tokenizer = Tokenizer.load(ModelRef.of(init).folder / "tokenizer.model")
    elif settings.checkpoint:
        tokenizer = Tokenizer.load(Path(settings.checkpoint) / "tokenizer.model")
    else:
        texts = (text for pair in corpus.train for text in (words_only(pair) if trees else pair))
        options = dataclasses.asdict(settings)
        del options["checkpoint"]
        tokenizer = train_tokenizer(texts, **options, fewer=True)
    if trees:
        items = (item for _, tree in corpus.train for item in tree.split() if is_symbol(item))
        counts = Counter(items)
        ordered = sorted(counts, key=lambda symbol: (-counts[symbol], symbol))  # commonest first
        tokenizer = with_symbols(tokenizer, ordered)
    elif recipe.stack is not None and recipe.stack.task == "fill":
        tokenizer = with_symbols(tokenizer, [MASK])
    elif tokenizer.vocab_size != settings.vocab_size:
        log.info("%d pieces instead of %d", tokenizer.vocab_size, settings.vocab_size)
    write_atomic(path, tokenizer.to_bytes())
    return tokenizer


def encode_pairs(pairs: Sequence[Pair], tokenizer: Tokenizer, max_positions: int) -> Encoded:
    """Return token ids of the pairs, dropping those with an empty or too long side."""
    sources = tokenizer.encode_many([src for src, _ in pairs])
    targets = tokenizer.encode_many([tgt for _, tgt in pairs])
    # One position is for `</s>` in the source and `<s>` in the target.
    fitting = [
        (src, tgt)
        for src, tgt in zip(sources, targets, strict=True)
        if 0 < len(src) < max_positions and 0 < len(tgt) < max_positions
    ]
    return [src for src, _ in fitting], [tgt for _, tgt in fitting]
