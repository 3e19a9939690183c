"""`complexity`: measure time and memory of the layers of table 1 on this machine."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer.commands.options import progress_bar

if TYPE_CHECKING:
    from transformer.experiments.records import Measurement


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--quick", action="store_true", help="small shapes, a few seconds")
    parser.add_argument(
        "--lengths", type=int, nargs="+", metavar="N", help="default: 32 64 ... 4096"
    )
    parser.add_argument("--widths", type=int, nargs="+", metavar="D", help="default: 128 256 512")
    parser.add_argument("--threads", type=int, metavar="N", help="threads of PyTorch; default: 1")
    parser.add_argument(
        "--seconds", type=float, metavar="S",
        help="time for all rounds, of which there are 5 to 15; default: 100",
    )  # fmt: skip
    parser.add_argument(
        "--memory", type=int, metavar="MIB",
        help="leave out layers whose tensors would hold more; default: 1024",
    )  # fmt: skip
    parser.add_argument("--device", help="auto, cpu or cuda; default: cpu")
    parser.add_argument("--json", action="store_true", help="print the measurement as JSON")
    parser.add_argument("--out", metavar="FILE", help="also write it to this file, as JSON")
    parser.add_argument(
        "--lines", action="store_true", help="progress as lines on standard error, for programs"
    )


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from dataclasses import replace

    from transformer.experiments.complexity import QUICK, Plan, measure
    from transformer.files.atomic import check_place, write_atomic

    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name in ("lengths", "widths", "threads", "seconds", "device")
        if (value := getattr(options, name)) is not None
    }
    words = [each for name, value in given.items() for each in (f"--{name}", *_texts(value))]
    if options.memory is not None:
        given["held"] = options.memory * 2**20
        words += ["--memory", str(options.memory)]
    start = QUICK if options.quick else Plan()
    plan = replace(start, **given, command=" ".join([start.command, *words]))
    if options.out is not None:
        check_place(Path(options.out))
    print(
        f"one layer at a time, of at most {plan.most_held / 2**20:,.0f} MiB of tensors",
        file=sys.stderr,
    )
    if options.lines:
        made = measure(plan, lambda *now: print(*now, file=sys.stderr, flush=True))
    else:
        with progress_bar(disable=None, unit=" layers") as report:
            made = measure(plan, report)
    if options.out is not None:
        write_atomic(Path(options.out), made.to_json().encode())
    print(made.to_json() if options.json else table(made), end="")


def _texts(value: Any) -> list[str]:
    return [f"{each:g}" if isinstance(each, float) else str(each)
            for each in (value if isinstance(value, tuple) else (value,))]  # fmt: skip


def table(made: Measurement) -> str:
    """Return the exponents and crossings of a measurement as text."""
    from transformer.experiments.records import COMPARED, crossings, exponents, large
    from transformer.measures.layer_costs import LAYER_COSTS

    by = made.made
    lines = [
        f"{by.processor}, {by.threads} of {by.cores} cores, PyTorch {by.torch}, "
        f"{made.rounds} rounds, n from {large(made)[0]}",
        f"{'exponent of time':30}{'in n (d ' + str(made.widths[-1]) + ')':>26}"
        f"{'in d (n ' + str(made.lengths[-1]) + ')':>26}",
    ]
    for row in exponents(made, made.widths[-1]):
        cells = (
            f"{'-' if fit is None else f'{fit.value:.2f} ({fit.low:.2f} to {fit.high:.2f})':>26}"
            for fit in (row.in_n, row.in_d)
        )
        lines.append(f"{LAYER_COSTS[row.kind].name:30}{''.join(cells)}")
    lines.append("self-attention gets slower from n =")
    for first, second in COMPARED:
        for d, found in crossings(made, first, second).items():
            names = f"{LAYER_COSTS[first].name} against {LAYER_COSTS[second].name}"
            lines.append(
                f"  {names}, d {d}: {found.value:.0f} ({found.low:.0f} to {found.high:.0f})"
            )
    return "\n".join(lines) + "\n"
