"""Errors of a model, as far as its own probabilities tell them.

    python benchmarks/certainty.py translations checkpoints/everyday-en-de --data DIR
    python benchmarks/certainty.py brackets checkpoints/parsing-gum --data DIR

`translations` prints the area under the ROC curve (AUC) of signals that a page could show without a
reference: on 1,000 Tatoeba sentences that trained nothing, where a translation is poor if its
chrF is below 40 against every reference of its source, and on the 200 typed sentences, where it
counts as wrong by the accepted translations. Then it prints the points of the best signal's curve.

`brackets` prints how often GUM dev has the phrases that a parser writes, by the probability of
their two brackets, and fits the scale that the Parsing page shows on every other sentence.

Intervals hold with 95%, by a bootstrap over sentences. A minute and two minutes on one core.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [] if str(ROOT) in sys.path else [str(ROOT)]

from transformer.evaluation.measure import read_metrics  # noqa: E402
from transformer.evaluation.parsing import load_parser, source_text  # noqa: E402
from transformer.evaluation.scores import score  # noqa: E402
from transformer.measures.parse import confidences, read_parse  # noqa: E402
from transformer.measures.words import word_groups  # noqa: E402
from transformer.search.request import default_decoding  # noqa: E402
from transformer.trace.records import Trace  # noqa: E402
from transformer.training.corpus import load_held_out, read_treebank  # noqa: E402
from transformer.training.typed import accepts, typed_sentences  # noqa: E402
from transformer.translator import Translator  # noqa: E402
from transformer.trees.score import SAME, brackets  # noqa: E402
from transformer.trees.tree import PUNCTUATION, TRACE_TAG  # noqa: E402
from transformer.types import Bools, Reals  # noqa: E402

SENTENCES, POOR, RESAMPLES = 1000, 40, 1000


def similarity(one: str, other: str) -> float:
    """Return chrF, 0 to 100."""
    return score([one], [other]).chrf


def longest_words(trace: Trace) -> list[int]:
    """Return the number of pieces of each source word without digits."""
    words = [word for word in word_groups(trace.src_tokens, trace.src_special)
             if word[0] not in trace.src_special]  # fmt: skip
    spelled = ["".join(trace.src_tokens[at] for at in word) for word in words]
    return [
        len(word) for word, text in zip(words, spelled, strict=True)
        if not any(map(str.isdigit, text))
    ] or [1]  # fmt: skip


def disagreement(trace: Trace) -> float:
    """Return how unlike the winner the next three hypotheses of the beam are, 0 to 100."""
    texts = [" ".join(found.tokens) for found in trace.search.hypotheses] if trace.search else []
    others = [100 - similarity(text, texts[0]) for text in texts[1:4]]
    return float(np.mean(others)) if others else 0.0


def copied(trace: Trace) -> float:
    """Return the share of target words that the source has too."""
    source, words = set(trace.source.casefold().split()), trace.text.casefold().split()
    return float(np.mean([word in source for word in words])) if words else 1.0


#: Signals by name; a larger value should mean more errors.
SIGNALS: dict[str, Callable[[Trace], float]] = {
    "mean log-probability of a token": lambda trace: -float(trace.log_probs.mean()),
    "lowest log-probability of a token": lambda trace: -float(trace.log_probs.min()),
    "log-probability of the translation": lambda trace: -float(trace.log_probs.sum()),
    "mean entropy": lambda trace: float(trace.entropy.mean()),
    "largest entropy": lambda trace: float(trace.entropy.max()),
    "words of three pieces or more": lambda trace: float(
        np.mean([length > 2 for length in longest_words(trace)])
    ),
    "pieces of a word": lambda trace: float(np.mean(longest_words(trace))),
    "unknown pieces": lambda trace: float(len(trace.src_unknown)),
    "disagreement of the beam": disagreement,
    "copied words": copied,
    "attention on </s>": lambda trace: float(
        trace.cross.mean((0, 1))[:, list(trace.src_special)].sum(-1).mean()
    ),
    "source length": lambda trace: float(len(trace.src_tokens)),
}


def auc(values: Reals, bad: Bools) -> float:
    """Return the probability that a bad item has the larger value; a tie counts half."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    n, others = int(bad.sum()), int((~bad).sum())
    return float((ranks[bad].sum() - n * (n + 1) / 2) / (n * others)) if n and others else 0.5


def interval(values: Sequence[float]) -> str:
    """Return the 95% interval of resampled values as text."""
    low, high = np.quantile(values, [0.025, 0.975])
    return f"{low:.2f} to {high:.2f}"


def translations(folder: Path, data: Path) -> None:
    """Print the ROC of each signal on held-out and on typed sentences."""
    recipe, _ = read_metrics(folder)
    model, held_out = Translator.load(folder, "cpu"), load_held_out(recipe.data, data)
    references: dict[str, list[str]] = {}
    for source, target in held_out.tests["tatoeba_test"]:
        references.setdefault(source, []).append(target)
    rng = np.random.default_rng(0)
    sources = rng.permutation(np.array([*references], object))[:SENTENCES].tolist()
    found = model.traces(sources)
    poor = [
        max(similarity(trace.text, each) for each in references[source]) < POOR
        for source, trace in zip(sources, found, strict=True)
    ]
    typed = typed_sentences(recipe.data.src, recipe.data.tgt)
    traces = model.traces([each.source for each in typed])
    wrong = [
        not accepts(each.accepted, trace.text) for each, trace in zip(typed, traces, strict=True)
    ]
    texts = {"held out": (found, np.array(poor)), "typed": (traces, np.array(wrong))}
    for title, (_, bad) in texts.items():
        print(f"{title}: {bad.sum()} of {len(bad)} bad")
    for name, signal in SIGNALS.items():
        line = f"{name:36}"
        for of, bad in texts.values():
            values = np.array([signal(trace) for trace in of])
            draws = rng.integers(0, len(bad), (RESAMPLES, len(bad)))
            spread = interval([auc(values[draw], bad[draw]) for draw in draws])
            line += f"{auc(values, bad):6.3f} ({spread})"
        print(line)
    for title, (of, bad) in texts.items():
        sure = np.exp([trace.log_probs.mean() for trace in of])
        for limit in (0.5, 0.6, 0.7):
            doubted = sure < limit
            print(
                f"{title}, below {limit:.0%}: {doubted.sum()} sentences, {bad[doubted].sum()} bad; "
                f"above: {(~doubted).sum()}, {bad[~doubted].sum()} bad"
            )


def brackets_of(folder: Path, data: Path) -> None:
    """Print how often GUM dev has a parser's phrases, and the fitted scale."""
    decoding = default_decoding(read_metrics(folder)[1])
    parser, rows = load_parser(folder, "cpu"), []
    for number, tree in enumerate(read_treebank(data / "gum" / "dev.ptb")):
        trace = parser.trace(source_text(tree.words), None, decoding.beam_size, decoding.alpha)
        reading = read_parse(trace, tree.words, parser.tokenizer)
        tags = [leaf.label for leaf in tree.leaves()]
        counts = [tag not in PUNCTUATION and tag != TRACE_TAG for tag in tags]
        theirs, places = Counter(brackets(tree, counts)), np.cumsum([0, *counts]).tolist()
        for node, log_prob in zip(reading.nodes, confidences(reading, trace), strict=True):
            key = (SAME.get(node.label, node.label), places[node.first], places[node.end])
            if not node.is_word and np.isfinite(log_prob) and key[1] < key[2]:
                rows.append((number, float(log_prob), theirs[key] > 0))
                theirs[key] -= 1
    number, log_probs, right = (np.array(column) for column in zip(*rows, strict=True))
    shares = np.exp(log_probs)
    print(f"{len(rows):,} phrases, {right.mean():.1%} also in GUM dev")
    for name, inside in {
        "100% (rounded)": shares >= 0.995, "90% or more": shares >= 0.9,
        "50 to 90%": (shares < 0.9) & (shares >= 0.5), "below 50%": shares < 0.5,
    }.items():  # fmt: skip
        print(name, *_frequency(number, right, inside))
    certain = np.minimum(log_probs, -1e-6)
    odds = np.stack([certain - np.log(-np.expm1(certain)), np.ones(len(rows))], 1)
    fitted, weights = number % 2 == 0, np.array([0.3, 0.0])
    for _ in range(50):  # Newton's method for logistic regression
        p = 1 / (1 + np.exp(-odds @ weights))
        slope = odds[fitted].T @ (p - right)[fitted]
        curvature = odds[fitted].T @ (odds * (p * (1 - p))[:, None])[fitted]
        weights -= np.linalg.solve(curvature, slope)
    p = 1 / (1 + np.exp(-odds @ weights))
    print(f"scale: {weights[0]:.3f}, {weights[1]:.3f}; on the other sentences")
    before, after = (_error(of, right, ~fitted) for of in (shares, p))
    print(f"calibration error {before:.3f}, scaled {after:.3f}")
    for low, high in ((0.9, 1.1), (0.5, 0.9), (0.0, 0.5)):
        print(f"scaled {low:.0%}", *_frequency(number, right, (p >= low) & (p < high) & ~fitted))


def _frequency(number: Reals, right: Bools, inside: Bools) -> tuple[str, ...]:
    sums, sizes = (
        np.bincount(number, values, number.max() + 1) for values in (right & inside, inside)
    )
    draws = np.random.default_rng(0).integers(0, len(sums), (RESAMPLES, len(sums)))
    spread = interval([sums[draw].sum() / sizes[draw].sum() for draw in draws])
    return f"{inside.sum():,} phrases,", f"{right[inside].mean():.2f} right ({spread})"


def _error(shares: Reals, right: Bools, inside: Bools) -> float:
    """Return the expected calibration error over ten bins of equal width."""
    shares, right = shares[inside], right[inside]
    bins = np.minimum((shares * 10).astype(int), 9)
    gaps = np.bincount(bins, shares - right, 10)
    return float(np.abs(gaps).sum() / len(shares))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("what", choices=("translations", "brackets"))
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    {"translations": translations, "brackets": brackets_of}[given.what](
        given.checkpoint, given.data
    )
