"""Measures of edges: which one tells the effect of a cut, and the cost of each.

    python benchmarks/measures.py predict checkpoints/everyday-en-de [--sentences N] [--out FILE]
    python benchmarks/measures.py table FILE
    python benchmarks/measures.py cost [--json]

`predict` translates typed sentences, cuts every edge of the decoder in one layer or in all, and
prints the mean rank correlation (Spearman) of each measure with the size of the token's change in
log-probability, over the edges of a sentence, and its lead over the weight in the same sentences.
Intervals hold with 95%, by a bootstrap over sentences. 2 to 15 minutes on one core for 200
sentences; FILE keeps one checkpoint's rows beside others', after every tenth sentence. The app
reads ui/frame/measures.json, and docs/measures.md holds what `table` prints of it.

`cost` prints the seconds of each measure for 40 source and 40 target tokens in a random model of 6
and 6 layers, 8 heads and d_model 512, on two threads, also as a multiple of one pass that records
the maps.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [] if str(ROOT) in sys.path else [str(ROOT)]

from figures.labels import KIND_NAMES  # noqa: E402
from transformer.attribution.edges import MEASURES as EDGE_MEASURES  # noqa: E402
from transformer.attribution.edges import edges, effects, mix  # noqa: E402
from transformer.config import ModelConfig  # noqa: E402
from transformer.evaluation.measure import read_metrics  # noqa: E402
from transformer.measures.heads import rank_correlation  # noqa: E402
from transformer.model import Transformer  # noqa: E402
from transformer.search.request import excluded  # noqa: E402
from transformer.trace.building import build_trace, predictions, to_array  # noqa: E402
from transformer.training.typed import typed_sentences  # noqa: E402
from transformer.translator import Translator  # noqa: E402
from transformer.types import ATTENTION_KINDS, AttentionKind  # noqa: E402

RESAMPLES, REPEATS = 1000, 5
MEASURES = ("weight", *EDGE_MEASURES)
KINDS: tuple[AttentionKind, ...] = ("decoder_self", "cross")


def main() -> None:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("predict")
    one.add_argument("checkpoint", type=Path)
    one.add_argument("--sentences", type=int, default=200)
    one.add_argument("--out", type=Path)
    commands.add_parser("table").add_argument("file", type=Path)
    other = commands.add_parser("cost")
    for command in (one, other):
        command.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.command == "table":
        print(table(json.loads(options.file.read_text())))
        return
    result = (
        cost() if options.command == "cost"
        else predict(options.checkpoint, options.sentences, options.out)
    )  # fmt: skip
    if options.json:
        print(json.dumps(result, indent=2))
        return
    for row in result["rows"]:
        print("  ".join(f"{value:<14.14}" if isinstance(value, str) else f"{value:>7.2f}"
                        for value in row.values()))  # fmt: skip


def predict(checkpoint: Path, count: int, out: Path | None = None) -> dict[str, Any]:
    """Correlate measures with effects on typed sentences.

    Args: out: file that takes the result as JSON, after every tenth sentence and at the end.
    """
    translator = Translator.load(checkpoint)
    data = read_metrics(checkpoint)[0].data
    sentences = [entry.source for entry in typed_sentences(data.src, data.tgt)][:count]
    never, n_layers = excluded(translator.config), translator.config.n_decoder_layers
    places: list[int | None] = [*range(n_layers), None]
    found: dict[tuple[str, str, str], list[float]] = {}
    for done, trace in enumerate(translator.traces(sentences), 1):
        blocks = {"weight": {kind: trace.attention(kind).mean(1) for kind in KINDS}}
        blocks |= {name: edges(translator.model, trace, name).blocks for name in EDGE_MEASURES}
        for kind in KINDS:
            n, m = trace.attention(kind).shape[2:]
            visible = (
                np.tril(np.ones((n, m), bool)) if kind == "decoder_self" else np.ones((n, m), bool)
            )
            visible[0] &= kind == "cross"  # the first token sees only itself
            for layer in places:
                sizes = np.abs(effects(translator.model, trace, kind, layer, excluded=never))
                for name, of in blocks.items():
                    values = of[kind].mean(0) if layer is None else of[kind][layer]
                    place = "all" if layer is None else str(layer + 1)
                    correlation = rank_correlation(values[visible], sizes[visible])
                    found.setdefault((kind, place, name), []).append(correlation)
        if out is not None and (done % 10 == 0 or done == len(sentences)):
            write(out, summary(checkpoint.name, found))
    return summary(checkpoint.name, found)


def write(out: Path, result: dict[str, Any]) -> None:
    """Store a checkpoint's rows in a file, one a line, rounded."""
    stored = json.loads(out.read_text()) if out.exists() else {}
    stored[result["checkpoint"]] = [
        {name: round(value, 3) if isinstance(value, float) else value
         for name, value in row.items()} for row in result["rows"]
    ]  # fmt: skip
    parts = (
        f"{json.dumps(name)}: [\n" + ",\n".join(map(json.dumps, rows)) + "\n]"
        for name, rows in sorted(stored.items())
    )
    out.write_text("{\n" + ",\n".join(parts) + "\n}\n")


def table(stored: dict[str, list[dict[str, Any]]]) -> str:
    """Return the rows of all checkpoints as a Markdown table."""
    lines = ["| model | attention | layer | weight | norm | value zeroing | contribution |",
             "|---|---|---|---|---|---|---|"]  # fmt: skip
    for name, rows in stored.items():
        for at in range(0, len(rows), len(MEASURES)):
            cells = [
                f"{row['correlation']:.2f} ({row['low']:.2f} to {row['high']:.2f})"
                + " ↑" * (row["lead_low"] > 0) + " ↓" * (row["lead_high"] < 0)
                for row in rows[at : at + len(MEASURES)]
            ]  # fmt: skip
            kind = KIND_NAMES[rows[at]["kind"]].lower()
            lines.append(f"| {' | '.join([name, kind, rows[at]['layer'], *cells])} |")
    return "\n".join(lines)


def summary(name: str, found: dict[tuple[str, str, str], list[float]]) -> dict[str, Any]:
    """Return the mean correlation of each kind, layer and measure with its interval."""
    rows = []
    for (kind, place, measure), values in found.items():
        kept = np.isfinite(values)
        weight = found[kind, place, "weight"]
        lead = np.subtract(values, weight)[kept & np.isfinite(weight)]
        numbers = np.array(values)[kept]
        row: dict[str, Any] = {"kind": kind, "layer": place, "measure": measure}
        for what, of in (("", numbers), ("lead_", lead)):
            row[f"{what}correlation"] = float(of.mean())
            row[f"{what}low"], row[f"{what}high"] = interval(of)
        rows.append(row | {"sentences": float(len(numbers))})
    return {"checkpoint": name, "rows": rows}


def interval(values: Any) -> tuple[float, float]:
    """Return the 95% interval of a mean."""
    rng = np.random.default_rng(0)
    means = rng.choice(values, (RESAMPLES, len(values))).mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


class _Numbers:
    """Spells tokens as their ids."""

    def shown(self, ids: Sequence[int], after: int | None = None) -> tuple[str, ...]:
        return tuple(map(str, ids))


def cost() -> dict[str, Any]:
    """Time each measure, and one pass that records the maps."""
    torch.set_num_threads(2)
    torch.manual_seed(0)
    config = ModelConfig(vocab_size=32_000, d_model=512, n_heads=8, d_ff=2048)
    model = Transformer(config).eval().requires_grad_(False)
    src, tgt = torch.randint(4, 32_000, (2, 1, 40))

    def read() -> tuple[Any, Any, Any]:
        with torch.inference_mode():
            encoded = model.encode(src, need_weights=True)
            decoded = model.decode(tgt, encoded, need_weights=True)
            return encoded, decoded, model.logits(decoded.hidden).log_softmax(-1)

    encoded, decoded, log_probs = read()
    maps = (encoded.attention, decoded.self_attention, decoded.cross_attention)
    predicted = predictions(log_probs[0], tgt[0].roll(-1).tolist(), 1)
    arrays = (to_array(of_kind[:, 0]) for of_kind in maps)
    trace = build_trace(
        _Numbers(), dict(zip(ATTENTION_KINDS, arrays, strict=True)),
        tuple(tgt[0].tolist()), predicted, src_ids=tuple(src[0].tolist()),
    )  # fmt: skip
    works: dict[str, Callable[[], object]] = {"one pass": read}
    for name in EDGE_MEASURES:
        works[name] = lambda name=name: edges(model, trace, name)  # type: ignore[misc]
    contributions = edges(model, trace, "contribution")
    works["source, prefix"] = lambda: mix(contributions)
    for kind in KINDS:
        works[f"effect {kind}"] = lambda kind=kind: effects(model, trace, kind)  # type: ignore[misc]
    seconds = {name: min(map(timed, [work] * REPEATS)) for name, work in works.items()}
    once = seconds["one pass"]
    rows = [
        {"measure": name, "seconds": took, "passes": took / once} for name, took in seconds.items()
    ]
    return {"rows": rows}


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
