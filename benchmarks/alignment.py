"""Why the word links of a translator of this project are far from the state of the art on RWTH.

    python benchmarks/alignment.py DATA checkpoints/everyday-en-de checkpoints/everyday-de-en

The second model translates the other way; DATA has the folder alignment-de-en. Prints alignment
errors (AER, %) of the best head, row and model as one thing changes at a time, with 95% intervals
(bootstrap over sentences), each beside the guess along the diagonal in the same setting. Two
minutes on one core.
"""

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [] if str(ROOT) in sys.path else [str(ROOT)]

from transformer.evaluation.alignment import Aligned, read_gold  # noqa: E402
from transformer.evaluation.measure import read_metrics  # noqa: E402
from transformer.measures.pharaoh import turned  # noqa: E402
from transformer.measures.words import (  # noqa: E402
    Gold,
    Link,
    Row,
    alignment_counts,
    diagonal,
    word_maps,
    words_of,
)
from transformer.training.linked import linked_sentences  # noqa: E402
from transformer.translator import Translator  # noqa: E402

Links = Sequence[frozenset[Link]]
SHORT, LONG = 10, 25  # words of a source sentence
END = ".,;:!?"


class Reading:
    """A model follows all sentence pairs; its maps are over words."""

    def __init__(self, model: Translator, aligned: Aligned) -> None:
        """Follow the given translations."""
        self.aligned = aligned
        self.maps: dict[Row, list[Any]] = {"reading": [], "predicting": []}
        self.pieces: list[list[int]] = []  # of every target word
        self.sources: list[int] = []  # words of every source
        log_probs: list[float] = []
        for source, target in aligned.pairs:
            trace = model.trace(source, target, top_k=1)
            for row, maps in self.maps.items():
                maps.append(word_maps(trace, row))  # [L, H, t, s]
            self.pieces.append([len(group) for group in words_of(trace, "reading").rows])
            self.sources.append(len(source.split()))
            log_probs += trace.log_probs.tolist()
        self.perplexity = math.exp(-float(np.mean(log_probs)))

    def links(self, row: Row, layer: int, head: int | None) -> Links:
        """Return the largest of each row; all heads of a layer without a head."""
        every = (maps[layer].mean(0) if head is None else maps[layer, head]
                 for maps in self.maps[row])  # fmt: skip
        return [frozenset((int(row.argmax()), to) for to, row in enumerate(one)) for one in every]

    def guesses(self) -> Links:
        """Return the guess along the diagonal."""
        return [diagonal(maps.shape[2], maps.shape[3]) for maps in self.maps["reading"]]

    def best(self, row: Row) -> tuple[int, int]:
        """Return the layer and head with the smallest error."""
        n_layers, n_heads = self.maps[row][0].shape[:2]
        places = [(layer, head) for layer in range(n_layers) for head in range(n_heads)]
        return min(places, key=lambda place: error(self.links(row, *place), self.aligned.gold)[0])


def error(links: Links, gold: Sequence[Gold]) -> tuple[float, float, float]:
    """Return the AER in percent and its interval."""
    counts = alignment_counts(links, gold)
    drawn = np.random.default_rng(0).integers(len(counts), size=(2000, len(counts)))
    right, total = counts[drawn].sum(1).T
    low, high = np.nanquantile(1 - right / total, [0.025, 0.975])
    right, total = counts.sum(0)
    return 100 * (1 - right / total), 100 * low, 100 * high


def kept(links: Links, gold: Sequence[Gold], keep: Callable[[int, int], bool]) -> Any:
    """Keep links whose sentence and target word pass, on both sides."""
    left = [frozenset(link for link in of if keep(at, link[1])) for at, of in enumerate(links)]
    golds = [
        Gold(*(frozenset(link for link in of if keep(at, link[1]))
               for of in (one.sure, one.possible)))
        for at, one in enumerate(gold)
    ]  # fmt: skip
    return left, golds


def attached(aligned: Aligned) -> Aligned:
    """Join final punctuation to the word before it, as the models' training text has it."""
    pairs, golds = [], []
    for pair, gold in zip(aligned.pairs, aligned.gold, strict=True):
        texts, places = [], []
        for text in pair:
            words: list[str] = []
            place = []
            for word in text.split():
                if word in END and words:
                    words[-1] += word
                else:
                    words.append(word)
                place.append(len(words) - 1)
            texts.append(" ".join(words))
            places.append(place)
        pairs.append((texts[0], texts[1]))
        golds.append(Gold(*(
            frozenset((places[0][s], places[1][t]) for s, t in of)
            for of in (gold.sure, gold.possible)
        )))  # fmt: skip
    return Aligned(tuple(pairs), tuple(golds))


def say(what: str, links: Links, gold: Sequence[Gold], guess: Links | None = None) -> None:
    """Print one line."""
    aer, low, high = error(links, gold)
    sets = list(zip(links, gold, strict=True))
    n_links = max(1, sum(map(len, links)))
    sure = max(1, sum(len(one.sure) for one in gold))
    precision = sum(len(of & one.possible) for of, one in sets) / n_links
    recall = sum(len(of & one.sure) for of, one in sets) / sure
    beside = f"; diagonal {error(guess, gold)[0]:.1f}" if guess else ""
    print(f"{what}: {aer:.1f} ({low:.1f} to {high:.1f}), precision {100 * precision:.0f}, "
          f"recall {100 * recall:.0f}{beside}", flush=True)  # fmt: skip


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("checkpoints", type=Path, nargs=2)
    options = parser.parse_args()
    models = [Translator.load(path) for path in options.checkpoints]
    src, tgt = ((data := read_metrics(options.checkpoints[0])[0].data).src, data.tgt)
    aligned = read_gold(options.data, src)
    gold, one = aligned.gold, Reading(models[0], aligned)
    guess, place = one.guesses(), one.best("reading")
    links = one.links("reading", *place)
    print(f"{len(gold)} pairs; head: layer {place[0] + 1}, head {place[1] + 1}")
    print(f"perplexity a token: {one.perplexity:.1f}")
    say("reading row, best head", links, gold, guess)
    say("reading row, its layer's heads together", one.links("reading", place[0], None), gold)
    say("predicting row, best head", one.links("predicting", *one.best("predicting")), gold)

    linked = linked_sentences(src, tgt)
    pairs = tuple((row.source, row.target) for row in linked)
    known = Reading(models[0], Aligned(pairs, tuple(row.gold for row in linked)))
    print(f"training text: perplexity a token {known.perplexity:.1f}")
    linked_words = [{link[1] for link in row.gold.possible} for row in linked]
    for name, of in (("same head", place), ("its best head", known.best("reading"))):
        keep = lambda at, to: to in linked_words[at]  # noqa: E731
        say(f"training text, {name} {of[0] + 1}.{of[1] + 1}",
            *kept(known.links("reading", *of), known.aligned.gold, keep),
            kept(known.guesses(), known.aligned.gold, keep)[0])  # fmt: skip

    lengths = one.sources
    for name, some in (
        (f"sentences to {SHORT} words", lambda n: n <= SHORT),
        (f"{SHORT + 1} to {LONG} words", lambda n: SHORT < n <= LONG),
        (f"over {LONG} words", lambda n: n > LONG),
    ):  # fmt: skip
        keep = lambda at, to, some=some: some(lengths[at])  # noqa: E731
        count = sum(map(some, lengths))
        say(f"{name} ({count} pairs)", *kept(links, gold, keep), kept(guess, gold, keep)[0])
    sizes = (("one piece", lambda n: n == 1), ("two", lambda n: n == 2),
             ("three or more", lambda n: n > 2))  # fmt: skip
    total = sum(map(len, one.pieces))
    for name, some in sizes:
        keep = lambda at, to, some=some: some(one.pieces[at][to])  # noqa: E731
        count = sum(some(n) for of in one.pieces for n in of) / total
        say(f"target words of {name} ({100 * count:.0f}%)", *kept(links, gold, keep),
            kept(guess, gold, keep)[0])  # fmt: skip
    drawn = [{link[1] for link in row.possible} for row in gold]
    count = sum(len(row) for row in drawn) / total
    keep = lambda at, to: to in drawn[at]  # noqa: E731
    say(f"only target words with a gold link ({100 * count:.0f}%)", *kept(links, gold, keep),
        kept(guess, gold, keep)[0])  # fmt: skip
    n_sure = sum(len(row.sure) for row in gold)
    many = [frozenset(next(iter(of)) if (of := {link for link in row.possible if link[1] == to})
                      else (0, to) for to in range(len(pieces)))
            for row, pieces in zip(gold, one.pieces, strict=True)]  # fmt: skip
    say(f"one right link for each target word ({n_sure} sure links in all)", many, gold)

    back = Reading(models[1], read_gold(options.data, tgt))
    other = [turned(Gold(of, of)).sure for of in back.links("reading", *back.best("reading"))]
    say("the other model", other, gold)
    say("both models agree", [a & b for a, b in zip(links, other, strict=True)], gold)
    say("either model", [a | b for a, b in zip(links, other, strict=True)], gold)

    spaced = attached(aligned)
    joined = [
        frozenset((s, t) for s, t in of) for of in _moved(aligned, links)
    ]  # fmt: skip
    say("punctuation apart, counted with its word", joined, spaced.gold)
    usual = Reading(models[0], spaced)
    say("punctuation attached, as in training", usual.links("reading", *place), spaced.gold,
        usual.guesses())  # fmt: skip


def _moved(aligned: Aligned, links: Links) -> Links:
    """Return links of words as links of words with their punctuation."""
    as_gold = Aligned(aligned.pairs, tuple(Gold(of, of) for of in links))
    return [one.sure for one in attached(as_gold).gold]


if __name__ == "__main__":
    main()
