"""Seconds to find the sentences where a head looks from X to Y, over many captions; at most 0.2.

    python benchmarks/where.py ../shared/data/multi30k/train.en.gz

The words are those of the file; the looks are random, and one question lets every word through, so
no study of these sentences takes longer.
"""

import statistics
import sys
import timeit
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [] if str(ROOT) in sys.path else [str(ROOT)]

from transformer.study.corpus import Sentence  # noqa: E402
from transformer.study.examples import Term, Where  # noqa: E402
from transformer.study.records import Looks, Study  # noqa: E402
from transformer.trace.removals import Head  # noqa: E402
from transformer.training.data import read_lines  # noqa: E402
from transformer.trees.tree import split_words  # noqa: E402

QUESTIONS = {
    "any word to any word": (None, None),
    "“a” to any word": (Term("word", "a"), None),
    "“dog” to “a”": (Term("word", "dog"), Term("word", "a")),
    "any word to the token “man”": (None, Term("token", "man")),
}


def main(path: Path) -> None:
    """Print the median of each question, and the time that the index takes once."""
    lines = [tuple(split_words(line)) for line in read_lines(path)]
    sentences = tuple(Sentence(f"line {n}", words, words) for n, words in enumerate(lines, 1))
    rng, lengths = np.random.default_rng(0), np.array([len(words) for words in lines])
    starts = np.cumsum([0, *lengths])
    keys = rng.random((4, 8, starts[-1]), np.float32) * np.repeat(lengths, lengths)
    weights = rng.integers(1, 256, keys.shape, np.uint8)
    looks = Looks(starts, keys.astype(np.uint8), weights, None)
    head, n = Head("encoder_self", 3, 7), int(starts[-1])
    study = Study("", "", "", "", "", "", len(sentences), n, 1, 0, "", (), (head,), {}, sentences,
                  {"encoder_self": looks})  # fmt: skip
    where = Where(study, lambda word: (word,))
    print(f"{len(sentences):,} sentences of {n:,} words")
    for name, terms in QUESTIONS.items():
        seconds = timeit.repeat(lambda terms=terms: where(head, *terms), number=1, repeat=20)
        print(f"{name:30}{statistics.median(seconds):.3f} s")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
