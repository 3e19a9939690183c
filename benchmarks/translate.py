"""Translating on a CPU: Headlight, `transformers` and CTranslate2 with the same weights.

    python benchmarks/translate.py [--rounds 9] [--batch-rounds 3] [--json]

A Marian model of the paper's base shape with random weights (6+6 layers, d_model 512, 8 heads,
d_ff 2048, 32,000 pieces) is written by `transformers`, imported by this project's importer, and
converted for CTranslate2. All three read the same token ids in float32, generate with the same
settings for a fixed number of steps, and must return the same ids.

Each library has its own process (see `turns.py`). The processes take turns, task by task, and wait
idle in between; figures are medians over rounds.

- greedy and beam 4: one sentence of 20 tokens, 24 steps, with and without all attention maps. For
  Headlight that is `Translator.trace`, its record of the search included; CTranslate2 has none.
- trace: teacher forcing of the translation, every map of every layer and head, in one pass.
- batch: 100 sentences of 10 to 30 tokens, 24 steps.

The limit is the time to read every weight of the decoder once from this machine's memory, without
cross-attention's projections of keys and values, which are used once a sentence. A step of one
sentence cannot take less. Rows of a beam share the reading.
"""

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [] if str(ROOT) in sys.path else [str(ROOT)]

from benchmarks.random_marian import BASE, TINY, Shape, make, sources  # noqa: E402
from benchmarks.translate_contestants import CONTESTANTS, serve  # noqa: E402
from benchmarks.turns import (  # noqa: E402
    Figure,
    Process,
    missing,
    processors,
    report,
    rounds,
    say,
    setting,
)

SHAPES = {"base": BASE, "tiny": TINY}
#: Tasks by name: those of one sentence, then those of a batch.
SINGLE = ("greedy", "greedy, recorded", "beam 4", "beam 4, recorded", "trace")
BATCH = ("batch, greedy", "batch, beam 4", "batch, beam 4, recorded")


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


def differences(running: dict[str, Process], tasks: tuple[str, ...]) -> dict[str, str]:
    """Return how many sentences of each task got other ids than by Headlight's plain search.

    This also warms everything up.
    """
    found = {}
    for task in tasks:
        wanted = running["headlight"].do(task.removesuffix(", recorded"))["ids"]
        for name, process in running.items():
            if task in process.tasks:
                ids = process.do(task)["ids"]
                if task == "trace":  # reads the beam's translation and adds its own end
                    continue
                n_other = sum(one != other for one, other in zip(ids, wanted, strict=True))
                if n_other:
                    found[f"{name}, {task}"] = f"{n_other} of {len(wanted)}"
    return found


def ratios(times: Times) -> list[Figure]:
    """Return their median time divided by ours, by the names of `AIMS`, to three digits."""
    return [
        Figure(
            name, float(f"{_median(times, *theirs) / _median(times, 'headlight', ours):.3g}"), aim,
            "x", least=True,
        )
        for name, (theirs, ours, aim) in AIMS.items()
        if theirs in times
    ]  # fmt: skip


def _median(times: Times, who: str, task: str) -> float:
    return statistics.median(times[who, task])


def table(times: Times, shape: Shape, given: argparse.Namespace, made: list[list[int]]) -> str:
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
    return "\n".join(lines) + "\n"


def _limit(times: Times, shape: Shape, given: argparse.Namespace) -> list[str]:
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


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9, help="of one sentence's tasks; may be 0")
    parser.add_argument("--batch-rounds", type=int, default=3, help="of a batch's; may be 0")
    parser.add_argument("--batch", type=int, default=100, help="sentences in the batch")
    parser.add_argument("--tokens", type=int, default=20, help="of the one sentence")
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--threads", type=int, default=processors())
    parser.add_argument("--shape", choices=SHAPES, default="base")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    parser.add_argument("--serve", choices=CONTESTANTS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help="keep the model there, and use it again")
    given = parser.parse_args()
    shape = SHAPES[given.shape]
    if given.serve:
        serve(given.serve, given.folder, given.steps, given.threads, 4 * shape.step_weights)
        return
    if absent := missing("transformers", "ctranslate2"):
        sys.exit(absent)
    os.environ["HF_HUB_OFFLINE"] = "1"  # before transformers is imported
    times: Times = {}
    single = SINGLE if given.rounds else ()
    batch = BATCH if given.batch_rounds else ()
    with tempfile.TemporaryDirectory() as place:
        folder = given.folder or Path(place)
        if not (folder / "converted").exists():
            say("making the model ...")
            make(folder, shape)
        made = sources(shape, given.batch, given.tokens)
        (folder / "sentences.json").write_text(json.dumps(made))
        options = ("--steps", given.steps, "--shape", given.shape)
        with contextlib.ExitStack() as ended:
            running = {}
            for name in CONTESTANTS:
                running[name] = Process(name, __file__, folder, given.threads, *options)
                ended.callback(running[name].close)
            say("comparing ids ...")
            other = differences(running, single + batch)
            races = ((("read memory", *single), given.rounds), (batch, given.batch_rounds))
            for tasks, count in races:
                for name, task, done in rounds(running, tasks, count):
                    times.setdefault((name, task), []).append(done["seconds"])
    print(setting("transformers", "ctranslate2"))
    print(table(times, shape, given, made))
    for where, count in other.items():
        print(f"other ids than Headlight's: {where}, {count} sentences")
    if not other:
        print("All came to the same ids.")
    report(ratios(times), given.json, same_ids=not other)
    if other:
        sys.exit(1)


if __name__ == "__main__":
    main()
