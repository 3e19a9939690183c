"""From a recipe's words to text and tokenizer: which corpora, where they lie, how they are cut."""

from __future__ import annotations

from pathlib import Path

from transformer.checkpoint import write_atomic
from transformer.data import (
    Corpus,
    DataError,
    Pair,
    merge,
    multi30k,
    read_parallel,
    read_tsv,
    reversal,
    split_by_source,
    tatoeba,
)
from transformer.recipe import DataRecipe, Recipe
from transformer.tokenizer import Tokenizer, train_tokenizer


def load_corpus(recipe: DataRecipe, folder: Path) -> Corpus:
    """The text that a recipe names, from under `folder`. Raises `DataError`."""
    if recipe.val is None:
        return merge(_named(name, recipe, folder) for name in recipe.corpora)
    parts = [Corpus(_pairs(folder / name, recipe)) for name in recipe.corpora]
    return merge([*parts, Corpus((), _pairs(folder / recipe.val, recipe))])


def _named(name: str, recipe: DataRecipe, folder: Path) -> Corpus:
    # A corpus lies in a folder of its name, or --data is that folder itself.
    own = folder / name if (folder / name).is_dir() else folder
    if name == "reversal":
        return reversal()
    if name == "multi30k":
        return multi30k(own, recipe.src, recipe.tgt)
    if name == "tatoeba":
        return tatoeba(own, recipe.src, recipe.tgt)
    train, val, test = split_by_source(_pairs(folder / name, recipe), (0.985, 0.005, 0.01))
    return Corpus(train, val, {f"{Path(name).stem}_test": test})


def _pairs(path: Path, recipe: DataRecipe) -> tuple[Pair, ...]:
    if path.name.removesuffix(".gz").endswith(".tsv"):
        return read_tsv(path)
    return read_parallel(Path(f"{path}.{recipe.src}"), Path(f"{path}.{recipe.tgt}"))


def make_tokenizer(recipe: Recipe, corpus: Corpus, path: Path) -> Tokenizer:
    """Train the joint tokenizer on the training text, or read the one already at `path`."""
    if path.exists():
        return Tokenizer.load(path)
    if not corpus.train:
        raise DataError("the corpus has no training pairs")
    texts = [text for pair in corpus.train for text in pair]
    settings = recipe.tokenizer
    tokenizer = train_tokenizer(
        texts,
        settings.vocab_size,
        model_type=settings.model_type,
        character_coverage=settings.character_coverage,
        byte_fallback=settings.byte_fallback,
        casefold=settings.casefold,
    )
    write_atomic(path, tokenizer.to_bytes())
    return tokenizer
