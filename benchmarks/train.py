"""Training on a CPU: Headlight, `transformers`' Trainer and JoeyNMT on the same batches.

    python benchmarks/train.py [--rounds 7] [--updates 4] [--shape small] [--json]

`transformers` needs `accelerate`, and JoeyNMT pins older packages but runs without them:
`pip install --no-deps -r requirements-race-train.txt` installs both. A missing library is left out,
with a line that says so.

The text is the project's phrasebook, English to German, or with --data the text of a recipe of
Multi30k; the batches have 4,096 padded tokens. The libraries take turns, a few updates each round,
and another begins each round; each has a process of its own. Figures are target tokens a second,
medians over rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [] if str(ROOT) in sys.path else [str(ROOT)]

from benchmarks.train_contestants import CONTESTANTS, serve  # noqa: E402
from benchmarks.turns import Figure, Process, processors, ratio, report, rounds, say  # noqa: E402

#: Modules that each library needs.
NEEDED = {"transformers": ("transformers", "accelerate"), "joeynmt": ("joeynmt",)}

#: Aimed at: times as fast as each of the others.
AIM = 1.5

SHAPES: dict[str, dict[str, Any]] = {
    "small": {"preset": "small", "max_positions": 512},  # that of recipes/multi30k-en-de.toml
    "tiny": {"d_model": 32, "d_ff": 64, "n_heads": 4, "n_encoder_layers": 1,
             "n_decoder_layers": 1, "max_positions": 512},
}  # fmt: skip

Rates = dict[str, list[float]]


def recipe(given: argparse.Namespace) -> dict[str, Any]:
    return {
        "model": SHAPES[given.shape],
        "tokenizer": {"vocab_size": 8000},
        "data": {"corpora": ["multi30k" if given.data else "phrasebook"], "src": "en", "tgt": "de"},
        "training": {"batch_tokens": 4096, "precision": "float32", "seed": 1},
    }


def race(running: dict[str, Process], count: int, updates: int) -> tuple[Rates, dict[str, float]]:
    """Return tokens a second by round, and the last loss, by library; a first round warms up."""
    rates: Rates = {name: [] for name in running}
    losses = {}
    for number, name, _, done in rounds(running, ("update",), count + 1, count=updates):
        if number:
            rates[name].append(done["tokens"] / done["seconds"])
        losses[name] = done["loss"]
    return rates, losses


def ratios(rates: Rates) -> list[Figure]:
    """Return Headlight's tokens a second divided by each other library's, to three digits.

    Where torch.compile does not work, Headlight's are those of the eager objective.
    """
    ours = rates.get("headlight") or rates.get("headlight, eager") or []
    found = []
    for name in NEEDED:
        if ours and name in rates:
            faster = ratio(statistics.median(ours), statistics.median(rates[name])) or 0.0
            found.append(Figure(f"train_vs_{name}", faster, AIM, "x", least=True))
    return found


def table(rates: Rates, losses: dict[str, float], given: argparse.Namespace) -> str:
    lines = [
        f"Medians of {given.rounds} rounds of {given.updates} updates; {given.threads} threads, "
        f"shape {given.shape}, float32.",
        "",
        "| | target tokens/s | smallest to largest | loss at the end |",
        "|---|---:|---:|---:|",
    ]
    for name, each in rates.items():
        low, high = min(each), max(each)
        lines.append(
            f"| {name} | {statistics.median(each):,.0f} | {low:,.0f} to {high:,.0f} | "
            f"{losses[name]:.2f} |"
        )
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--updates", type=int, default=4, help="of a turn")
    parser.add_argument("--threads", type=int, default=processors())
    parser.add_argument("--shape", choices=SHAPES, default="small")
    parser.add_argument("--data", type=Path, help="folder with Multi30k; default: the phrasebook")
    parser.add_argument("--only", nargs="+", choices=CONTESTANTS, help="default: all")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    parser.add_argument("--serve", choices=CONTESTANTS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve, given.folder, given.threads)
        return
    names = []
    for name in given.only or CONTESTANTS:
        missing = [each for each in NEEDED.get(name, ()) if importlib.util.find_spec(each) is None]
        if missing:
            say(f"without {name}: {missing[0]} is missing; see requirements-race-train.txt")
        else:
            names.append(name)
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as ended:
        folder = Path(place)
        if given.data:
            (folder / "multi30k").symlink_to((given.data / "multi30k").resolve())
        (folder / "recipe.json").write_text(json.dumps(recipe(given)))
        running = {}
        for name in names:
            say(f"preparing {name} ...")
            process = Process(name, __file__, folder, given.threads)
            ended.callback(process.close)
            if process.tasks:
                running[name] = process
            else:
                say((folder / f"{name}.log").read_text().splitlines()[-1])
        rates, losses = race(running, given.rounds, given.updates)
    print(table(rates, losses, given))
    speeds = {name: round(statistics.median(each)) for name, each in rates.items()}
    report(ratios(rates), given.json, target_tokens_per_second=speeds)


if __name__ == "__main__":
    main()
