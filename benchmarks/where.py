"""Seconds to find the sentences where a head looks from X to Y, over many captions.

    python benchmarks/where.py ../shared/data/multi30k/train.en.gz

The words are those of the file; the looks are random, and one question lets every word through, so
no study of these sentences takes longer.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [] if str(ROOT) in sys.path else [str(ROOT)]

from benchmarks.turns import Figure, report  # noqa: E402
from transformer.study.corpus import Sentence  # noqa: E402
from transformer.study.records import Looks, Study  # noqa: E402
from transformer.study.where import Term, Where  # noqa: E402
from transformer.trace.removals import Head  # noqa: E402
from transformer.training.data import read_lines  # noqa: E402
from transformer.trees.words import split_words  # noqa: E402

#: Most seconds of a question, and how often each is asked.
AIM, TIMES = 0.2, 20

QUESTIONS = {
    "any word to any word": (None, None),
    "“a” to any word": (Term("word", "a"), None),
    "“dog” to “a”": (Term("word", "dog"), Term("word", "a")),
    "any word to the token “man”": (None, Term("token", "man")),
}


def main(path: Path) -> None:
    """Print the median of each question, and the time that the index takes once."""
    lines = [tuple(split_words(line)) for line in read_lines(path)]
    sentences = [Sentence(f"line {number}", words, words) for number, words in enumerate(lines, 1)]
    rng, lengths = np.random.default_rng(0), np.array([len(words) for words in lines])
    starts = np.cumsum([0, *lengths])
    keys = rng.random((4, 8, starts[-1]), np.float32) * np.repeat(lengths, lengths)
    weights = rng.integers(1, 256, keys.shape, np.uint8)
    looks = Looks(starts, keys.astype(np.uint8), weights, None)
    heads = tuple(Head("encoder_self", *at) for at in np.ndindex(4, 8))
    study = Study("", "", "", "", "", "", len(sentences), int(starts[-1]), 1, 0, "", (), heads, {},
                  tuple(sentences), {"encoder_self": looks})  # fmt: skip
    start = time.perf_counter()
    where = Where(study, lambda word: (word,))
    built = time.perf_counter() - start
    print(f"{len(sentences):,} sentences of {int(starts[-1]):,} words")
    figures = [Figure("the index, once", built, None, "s")]
    for name, terms in QUESTIONS.items():
        seconds = []
        for at in range(TIMES):
            start = time.perf_counter()
            where(heads[at % len(heads)], *terms)
            seconds.append(time.perf_counter() - start)
        figures.append(Figure(name, statistics.median(seconds), AIM, "s"))
    report(figures, as_json=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
