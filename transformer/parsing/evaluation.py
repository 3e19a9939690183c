"""Scores of a parser on gold trees."""

from __future__ import annotations

from pathlib import Path

from transformer.errors import InputError
from transformer.parsing.parser import parse
from transformer.search.request import Progress
from transformer.training.treebank import read_treebank
from transformer.translator import Translator
from transformer.trees.score import right_branching, score, total


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
