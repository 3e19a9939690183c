"""Directions of Voita et al. (2021) in the shipped translators: shares of source and prefix.

    python benchmarks/directions.py checkpoints/everyday-en-de ... [--sentences N] [--out FILE]

For each checkpoint, typed sentences are translated and the share of the source (ALTI+) is taken at
every step; then again after a random first token, one with which another sentence's translation
begins; then at every snapshot of the training, with the finished model's translation given. Each
direction is a mean over sentences with a 95% interval (bootstrap over sentences). FILE, by default
`ui/translate/directions.json`, keeps the results of other checkpoints. Three minutes a checkpoint
on one core for 200 sentences.
"""

import argparse
import json
import math
import random
import sys
from collections.abc import Sequence
from datetime import date
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [] if str(ROOT) in sys.path else [str(ROOT)]

from benchmarks.measures import interval  # noqa: E402
from transformer.attribution.edges import Mix, edges, loose, mix  # noqa: E402
from transformer.checkpoint.reference import SNAPSHOTS, at  # noqa: E402
from transformer.evaluation.measure import read_metrics  # noqa: E402
from transformer.measures import heads  # noqa: E402
from transformer.trace.records import Trace  # noqa: E402
from transformer.training.typed import typed_sentences  # noqa: E402
from transformer.translator import Translator  # noqa: E402

NEXT = 3  # steps after a wrong first token
OUT = ROOT / "ui" / "translate" / "directions.json"


def main() -> None:
    """Measure checkpoints and update the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("checkpoints", type=Path, nargs="+")
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    for checkpoint in options.checkpoints:
        record = json.loads(options.out.read_text()) if options.out.exists() else {}
        record[checkpoint.name] = result = measure(checkpoint, options.sentences)
        text = json.dumps(dict(sorted(record.items())), indent=1)
        options.out.write_text(text + "\n", encoding="utf-8")
        print(checkpoint.name, json.dumps(result, indent=1), flush=True)


def measure(checkpoint: Path, count: int) -> dict[str, Any]:
    """Return the directions of one checkpoint, and how often tokens are marked as loose."""
    translator = Translator.load(checkpoint)
    data = read_metrics(checkpoint)[0].data
    sentences = [entry.source for entry in typed_sentences(data.src, data.tgt)][:count]
    traces = translator.traces(sentences)
    own = mixes(translator, traces)
    shares = [values.source_share for values in own]
    wrong = [
        values.source_share for values in mixes(translator, misled(translator, sentences, traces))
    ]
    pairs = [(a, b, min(len(a), len(b)) - 1) for a, b in zip(shares, wrong, strict=True)]
    changes = [b[1:n] - a[1:n] for a, b, n in pairs]  # the last step may be </s> in one of them
    rows = {
        "falls": [along(values[:-1]) for values in shares],
        "drops": [float(values[-1] - values[-2]) for values in shares if len(values) > 1],
        "spreads": [along(heads.entropy_bits(_rows(values))[:-1]) for values in own],
        "wrong, next": [float(change[:NEXT].mean()) for change in changes if change.size],
        "wrong, later": [float(change[NEXT:].mean()) for change in changes if change[NEXT:].size],
    }
    results = {name: summary(values) for name, values in rows.items()}
    turned = turn(np.array(training(checkpoint, sentences, traces)))
    return {
        "day": date.today().isoformat(), "sentences": len(sentences),
        "directions": results | ({"turns": turned} if turned else {}),
        "loose": {"own": marked(shares), "wrong": marked(wrong)},
    }  # fmt: skip


def mixes(translator: Translator, traces: Sequence[Trace]) -> list[Mix]:
    """Return the shares of source and prefix of translations."""
    return [mix(edges(translator.model, trace, "contribution")) for trace in traces]


def _rows(values: Mix) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return the shares of source tokens within the source, [T, S]."""
    rows: np.ndarray[Any, np.dtype[np.float32]] = values.source / values.source_share[:, None]
    return rows


def along(values: np.ndarray[Any, Any]) -> float:
    """Return the rank correlation of values with their step; NaN below three steps."""
    steps = np.arange(len(values), dtype=np.float32)
    return heads.rank_correlation(steps, values.astype(np.float32)) if len(values) > 2 else math.nan


def misled(
    translator: Translator, sentences: Sequence[str], traces: Sequence[Trace]
) -> list[Trace]:
    """Translate sentences again, each after a random wrong first token."""
    rng, firsts = random.Random(0), sorted({trace.predicted_ids[0] for trace in traces})
    prefixes = [
        [rng.choice([token for token in firsts if token != trace.predicted_ids[0]])]
        for trace in traces
    ]
    return [
        translator.trace(sentence, prefix=prefix)
        for sentence, prefix in zip(sentences, prefixes, strict=True)
    ]


def training(
    checkpoint: Path, sentences: Sequence[str], traces: Sequence[Trace]
) -> list[list[float]]:
    """Return the mean share of the source, [snapshots, sentences], in given translations."""
    path = checkpoint / SNAPSHOTS
    updates = np.load(path)["updates"].tolist() if path.exists() else []
    shares = []
    for moment in updates:
        model = Translator.load(checkpoint.with_name(at(checkpoint.name, moment)))
        given = model.traces(sentences, targets=[trace.text for trace in traces])
        shares.append([float(values.source_share.mean()) for values in mixes(model, given)])
        print(moment, round(float(np.mean(shares[-1])), 3), file=sys.stderr, flush=True)
    return shares


def turn(shares: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, float] | None:
    """Return how far the share moves before and after the largest turn of the training.

    Three snapshots and a sign are chosen on every other sentence: the share moves one way from
    the first to the second, and back to the third. The rest says how far, the less certain way.

    Args: shares: [snapshots, sentences].
    """
    if len(shares) < 3:
        return None
    chosen, rest = shares[:, ::2].mean(1), shares[:, 1::2]

    def ways(values: Any, sign: int, a: int, b: int, c: int) -> tuple[Any, Any]:
        return sign * (values[b] - values[a]), sign * (values[b] - values[c])

    turns = [(sign, *abc) for sign in (1, -1) for abc in combinations(range(len(shares)), 3)]
    best = max(turns, key=lambda choice: min(ways(chosen, *choice)))
    return min((summary(way) for way in ways(rest, *best)), key=lambda way: way["low"])


def marked(shares: Sequence[np.ndarray[Any, np.dtype[np.float32]]]) -> float:
    """Return the share of translations with a loose token right after the first."""
    return float(np.mean([loose(values)[1 : NEXT + 1].any() for values in shares]))


def summary(values: Sequence[float]) -> dict[str, float]:
    """Return mean, interval and number of the values that are defined."""
    known = np.array([value for value in values if math.isfinite(value)])
    low, high = interval(known)
    return {"mean": float(known.mean()), "low": low, "high": high, "sentences": len(known)}


if __name__ == "__main__":
    main()
