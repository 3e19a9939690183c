"""Report of the race in `translate.py`: a table, the limit, and ratios."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence

from benchmarks.translate_model import Shape

#: Seconds of each round, by library and task.
Times = dict[tuple[str, str], list[float]]

LABELS = {"headlight": "Headlight", "transformers": "transformers", "ctranslate2": "CTranslate2"}

#: Figures with an aim: the two libraries and tasks compared, and the aim.
AIMS = {
    "recorded_beam4_vs_transformers": (("transformers", "beam 4, recorded"), "beam 4, recorded", 3),
    "recorded_beam4_vs_ctranslate2": (("ctranslate2", "beam 4"), "beam 4, recorded", 0.9),
    "trace_vs_transformers": (("transformers", "trace"), "trace", 1.3),
    "batch_vs_ctranslate2": (("ctranslate2", "batch, beam 4"), "batch, beam 4", 0.8),
}

ROWS = {
    "greedy": "greedy",
    "greedy, recorded": "greedy, with all attention",
    "beam 4": "beam 4",
    "beam 4, recorded": "beam 4, with all attention",
    "trace": "teacher forcing, with all attention",
    "batch, greedy": "batch, greedy",
    "batch, beam 4": "batch, beam 4",
    "batch, beam 4, recorded": "batch, beam 4, with all attention",
}


def ratios(times: Times) -> dict[str, float]:
    """Return their median time divided by ours, by the names of `AIMS`, to three digits."""
    return {
        name: float(f"{_median(times, *theirs) / _median(times, 'headlight', ours):.3g}")
        for name, (theirs, ours, _) in AIMS.items()
        if theirs in times
    }


def _median(times: Times, who: str, task: str) -> float:
    return statistics.median(times[who, task])


def table(times: Times, shape: Shape, given: argparse.Namespace, made: list[list[int]]) -> str:
    """Return the results as Markdown."""
    lines = [
        f"Medians of {given.rounds} rounds, of {given.batch_rounds} for the batch; {given.threads} "
        f"threads. One sentence of {given.tokens} tokens, {given.steps} steps; a batch of "
        f"{given.batch} sentences, {sum(map(len, made))} tokens. Times as fast: their time by "
        "Headlight's.",
        "",
        "| | Headlight | transformers | CTranslate2 | times as fast |",
        "|---|---:|---:|---:|---|",
    ]
    for task, label in ROWS.items():
        if all((who, task) not in times for who in LABELS):
            continue
        cells, compared = [], []
        for who in LABELS:
            if (who, task) not in times:
                cells.append("-")
                continue
            spent = _median(times, who, task)
            cells.append(f"{1000 * spent:,.0f} ms" if spent >= 0.02 else f"{1000 * spent:.1f} ms")
            if who != "headlight" and ("headlight", task) in times:
                by = spent / _median(times, "headlight", task)
                compared.append(f"{by:.2f} ({LABELS[who]})")
        lines.append(f"| {label} | {' | '.join(cells)} | {', '.join(compared)} |")
    if given.rounds:
        lines += ["", *_limit(times, shape, given)]
    lines += ["", "| figure | | aim |", "|---|---:|---|"]
    for name, value in ratios(times).items():
        aim = AIMS[name][2]
        verdict = "reached" if value >= aim else "missed, see --profile"
        lines.append(f"| {name} | {value:g} | at least {aim:g}: {verdict} |")
    return "\n".join(lines) + "\n"


def _limit(times: Times, shape: Shape, given: argparse.Namespace) -> list[str]:
    """Return lines on the time to read the weights for a sentence, and each library's share."""
    step, once = 4 * shape.step_weights, 4 * shape.sentence_weights
    speed = step / min(times["headlight", "read memory"])
    least = (given.steps * step + once) / speed
    lines = [
        f"Limit of one sentence: {given.steps} steps read {step / 1e6:,.1f} MB each, the encoder "
        f"and the source's keys and values {once / 1e6:,.1f} MB once; memory was read at "
        f"{speed / 1e9:.1f} GB/s at best. That takes {1000 * least:.0f} ms. How near each one "
        "comes, the limit by its time:",
        "",
        "| share of the limit | Headlight | transformers | CTranslate2 |",
        "|---|---:|---:|---:|",
    ]
    for task in ("greedy", "greedy, recorded", "beam 4", "beam 4, recorded"):
        cells = [
            f"{least / _median(times, who, task):.0%}" if (who, task) in times else "-"
            for who in LABELS
        ]
        lines.append(f"| {ROWS[task]} | {' | '.join(cells)} |")
    return lines


def profile_text(task: str, parts: Sequence[tuple[str, float]], most: int = 12) -> str:
    """Return the profile of one of our tasks as Markdown."""
    lines = [f"Headlight, {ROWS[task]}:", "", "| part | share of the time |", "|---|---:|"]
    lines += [f"| {name} | {share:.1%} |" for name, share in parts[:most]]
    return "\n".join(lines) + "\n"
