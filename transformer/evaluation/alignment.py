"""Word alignment error of each head, against manual links.

RWTH Aachen published the gold links for tokenised German and English sentences of the European
Parliament. A model follows the given translation, so each head gives one map per sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np

from transformer.measures.words import (
    Gold,
    Link,
    Row,
    alignment_counts,
    alignment_error,
    diagonal,
    links,
    merge,
    source_block,
    word_groups,
)
from transformer.models.one_stack.tracer import StackModel
from transformer.trace.records import Trace
from transformer.training.data import DataError, corpus_folder, find_file, read_lines
from transformer.translator import Translator
from transformer.types import Floats, Report, literals, no_report

#: Key in metrics.json.
ALIGNMENT = "alignment"

#: Folder of the gold links under --data.
FOLDER = "alignment-de-en"


@dataclass(frozen=True)
class Aligned:
    """Sentence pairs with their gold links."""

    pairs: tuple[tuple[str, str], ...]
    gold: tuple[Gold, ...]


def read_gold(data: Path, src: str) -> Aligned:
    """Read the gold links.

    Args: src: language of the sources, "en" or "de"; the targets are the other.

    Raises: `DataError` naming the file, or the language if it is neither.
    """
    if src not in ("en", "de"):
        raise DataError(f"the gold links are of German and English, not of {src!r}")
    folder = corpus_folder(FOLDER, data)
    german, english, drawn = (
        [" ".join(line.split()) for line in read_lines(find_file(folder / f"dev.{end}"))]
        for end in ("de", "en", "talp")
    )
    if not len(german) == len(english) == len(drawn):
        raise DataError(f"{folder}: the files have different numbers of lines")
    sides = (english, german) if src == "en" else (german, english)
    gold = tuple(_links(line, swap=src == "en", where=folder) for line in drawn)
    return Aligned(tuple(zip(*sides, strict=True)), gold)


def _links(line: str, *, swap: bool, where: Path) -> Gold:
    """Read `3-4` (sure) and `2p3` (possible), German first, from 1."""
    sure: set[Link] = set()
    possible: set[Link] = set()
    for drawn in line.split():
        try:
            first, second = (int(number) - 1 for number in drawn.replace("p", "-").split("-"))
        except ValueError:
            raise DataError(f"{where}: {drawn!r} is not a link such as 3-4 or 3p4") from None
        link = (second, first) if swap else (first, second)
        possible.add(link)
        if "p" not in drawn:
            sure.add(link)
    return Gold(frozenset(sure), frozenset(possible))


@literals
def word_maps(trace: Trace, row: Row) -> Floats:
    """Return the weights of every head of a translation over words, [L, H, targets, sources].

    For a one-stack translator, the source columns of its map.
    """
    if trace.cross.size:
        weights, sources, targets = trace.cross, trace.src_tokens, trace.tgt_tokens
    else:
        block = source_block(trace)
        weights, sources, targets = block.weights, block.src_tokens, block.tgt_tokens
    end, last = len(targets) - 1, trace.predicted_tokens[-1]
    by_spaces = partial(word_groups, only_spaces=True)  # like the words that people linked
    columns = by_spaces(sources, {len(sources) - 1})
    if row == "reading":
        return merge(weights, by_spaces(targets, {0}), columns)[..., 1:, :-1]
    ends = last == "</s>"
    words = merge(weights, by_spaces([*targets[1:], last], {end} if ends else ()), columns)
    return words[..., :-1, :-1] if ends else words[..., :-1]


def head_errors(
    model: Translator | StackModel,
    aligned: Aligned,
    progress: Report = no_report,
) -> dict[str, Any]:
    """Return the alignment error rate of every head, as in metrics.json.

    Returns: "sentences", for "reading" and "predicting" rows a table [L][H], and for "diagonal" the
        error of that guess and its 95% interval (see `diagonal_error`).
    """
    by_row: dict[Row, list[list[list[frozenset[Link]]]]] = {row: [] for row in get_args(Row)}
    for count, (source, target) in enumerate(aligned.pairs, 1):
        trace = model.trace(source, target)
        for row, sentences in by_row.items():
            maps = word_maps(trace, row)
            sentences.append([[links(head) for head in layer] for layer in maps])
        progress(count, len(aligned.pairs))
    table: dict[str, Any] = {"sentences": len(aligned.pairs), "diagonal": diagonal_error(aligned)}
    for row, sentences in by_row.items():
        table[row] = [
            [round(alignment_error(head, aligned.gold), 4) for head in zip(*layer, strict=True)]
            for layer in zip(*sentences, strict=True)
        ]
    return table


def diagonal_error(aligned: Aligned) -> dict[str, Any]:
    """Return the "error" of a diagonal guess and its 95% bootstrap "interval"."""
    guesses = [
        diagonal(len(target.split()), len(source.split())) for source, target in aligned.pairs
    ]
    counts, n = alignment_counts(guesses, aligned.gold), len(guesses)
    right, total = counts[np.random.default_rng(0).integers(n, size=(2000, n))].sum(axis=1).T
    interval = np.quantile(1 - right / total, [0.025, 0.975]).round(4).tolist()
    return {"error": round(alignment_error(guesses, aligned.gold), 4), "interval": interval}


def best_aligner(table: Mapping[str, Any]) -> tuple[int, int, str]:
    """Compare the smallest error of `head_errors`, in either row, with the guess.

    Returns: layer and head from 0, and a sentence. A head aligns words if its error lies below the
        interval of the guess.
    Raises: errors of indexing, for an invalid table.
    """
    rows = {"reading": "reads", "predicting": "predicts"}
    errors = np.array([table[row] for row in rows], np.float64)
    row, layer, head = (int(place) for place in np.unravel_index(errors.argmin(), errors.shape))
    error, guess, (low, high) = errors.min(), *(table["diagonal"][n] for n in ("error", "interval"))
    name = f"layer {layer + 1}, head {head + 1}"
    text = f"No head aligns words better than a guess: {name} comes nearest; its links"
    if error < low:
        text = f"{name.capitalize()} aligns words: its links"
    text += f" agree by {1 - error:.1%} with those that people drew, in the row that "
    text += f"{[*rows.values()][row]} a word. A guess along the diagonal agrees by {1 - guess:.1%} "
    text += f"(95% interval {1 - high:.1%} to {1 - low:.1%})"
    return layer, head, text
