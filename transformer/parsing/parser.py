"""Parse sentences with a model that translates them into their trees, and score it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from transformer.checkpoint.folder import Checkpoint, load_checkpoint
from transformer.device import resolve_device
from transformer.errors import CheckpointError, InputError
from transformer.parsing.reading import Parse, parsed
from transformer.search.decoding import Decoding
from transformer.search.request import Progress
from transformer.training.corpus import read_treebank
from transformer.translator import Translator
from transformer.trees.score import right_branching, score, total
from transformer.trees.symbols import CLOSE

#: Section 6.3: "a beam size of 21 and alpha = 0.3", at most the source length + 300.
PAPER_PARSING = Decoding(21, 0.3)
EXTRA_LENGTH = 300


def is_parser(translator: Translator) -> bool:
    """Return True for a model that writes trees: its vocabulary has their symbols."""
    return f"▁{CLOSE}" in translator.tokenizer.target.pieces


def load_parser(path: str | Path, device: str = "auto", *, free: bool = False) -> Translator:
    """Read a checkpoint that parses.

    Args: free: let it write anything, not only trees of the sentence.

    Raises: `CheckpointError`, and `InputError` for the device.
    """
    resolve_device(device)
    parser = parser_of(load_checkpoint(path), device, free=free)
    if not is_parser(parser):
        raise CheckpointError(f"{path}: translates, but does not write trees")
    return parser


def parser_of(checkpoint: Checkpoint, device: str = "auto", *, free: bool = False) -> Translator:
    """Return the parser of a checkpoint in memory; arguments as of `load_parser`."""
    return Translator(
        checkpoint.model,
        checkpoint.tokenizer,
        device=device,
        name=checkpoint.name,
        path=checkpoint.path,
        decoding=PAPER_PARSING,
        extra_length=EXTRA_LENGTH,
        follow_grammar=not free,
    )


def source_text(words: Sequence[str]) -> str:
    """Return the text that the encoder reads. Raises `InputError` for a word with a space."""
    for word in words:
        if not word or any(map(str.isspace, word)):
            raise InputError(f"the word {word!r} is empty or has a space in it")
    return " ".join(words)


def parse(
    translator: Translator,
    sentences: Iterable[Sequence[str]],
    beam_size: int | None = None,
    alpha: float | None = None,
    *,
    on_parsed: Progress | None = None,
    max_length: int | None = None,
) -> list[Parse]:
    """Parse sentences, given as their words, as the Treebank splits them (see `split_words`).

    Args:
        beam_size, alpha, max_length: see `Translator.translate`.
        on_parsed: called with (sentences done, sentences in all) after each batch.

    Raises: `InputError` for a sentence without words or of too many tokens (counted from 1).
    """
    sentences = list(sentences)
    for number, words in enumerate(sentences, 1):
        if not words:
            raise InputError(f"sentence {number} has no words")
    found = translator.translate(
        [source_text(words) for words in sentences],
        beam_size,
        alpha,
        on_translated=on_parsed,
        max_length=max_length,
    )
    return [
        parsed(each.ids, words, translator.tokenizer, complete=each.complete)
        for each, words in zip(found, sentences, strict=True)
    ]


def evaluate(
    parser: Translator,
    gold: Path,
    beam_size: int | None = None,
    alpha: float | None = None,
    on_parsed: Progress | None = None,
) -> dict[str, float]:
    """Parse the words of gold trees and compare.

    Returns: labelled precision, recall and F1 by EVALB's rules, exact matches, tags and repaired
        trees, all in percent; crossing brackets a sentence; the F1 of right-branching trees (with
        the gold tags); beam size and alpha.
    Raises: `DataError` naming the line of a tree that cannot be read.
    """
    trees = read_treebank(gold)
    if not trees:
        raise InputError(f"{gold}: no trees")
    found = parse(parser, [tree.words for tree in trees], beam_size, alpha, on_parsed=on_parsed)
    scores = [score(tree, each.tree) for tree, each in zip(trees, found, strict=True)]
    whole = total(scores)
    baseline = total(
        score(tree, right_branching(tree.words, [leaf.label for leaf in tree.leaves()]))
        for tree in trees
    )
    decoding = parser.decoding.resolve(beam_size, alpha, drawn=False)
    n = len(trees)
    return {
        "sentences": n,
        "f1": _percent(whole.f1),
        "precision": _percent(whole.precision),
        "recall": _percent(whole.recall),
        "exact": _percent(whole.exact / n),
        "tags": _percent(whole.tags / whole.words if whole.words else 0.0),
        "crossing_per_sentence": round(whole.crossing / n, 2),
        "repaired": _percent(sum(bool(each.rebuilt.repairs) for each in found) / n),
        "right_branching_f1": _percent(baseline.f1),
        "beam_size": decoding.beam_size,
        "alpha": decoding.alpha,
    }


def _percent(share: float) -> float:
    return round(100 * share, 2)
