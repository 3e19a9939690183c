"""`ablations`: repeat the rows of table 3 on Multi30k, and compare with the paper."""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from transformer.commands.options import add_device, progress_bar

if TYPE_CHECKING:
    from transformer.experiments.ablation_summary import Figure
    from transformer.experiments.ablations import Results, Variation


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--data", metavar="DIR", help="folder of the text; without it, no training")
    parser.add_argument("--out", metavar="DIR", help="folder of the runs, which are resumed there")
    parser.add_argument(
        "--rows", nargs="+", metavar="ROW", help="such as heads-1 layers-1; default: all, in order"
    )
    parser.add_argument(
        "--seeds", type=int, nargs="+", metavar="N", default=[1, 2, 3], help="default: 1 2 3"
    )
    parser.add_argument(
        "--table", metavar="FILE", help="file of the results; default: the project's own"
    )
    parser.add_argument("--compile", action="store_true", help="train with torch.compile")
    add_device(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress bars")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from transformer.errors import InputError
    from transformer.experiments.ablations import RUN_ORDER, SHIPPED, Results, variation

    if (options.data is None) != (options.out is None):
        raise InputError("--data and --out belong together: text to train on, and a place for runs")
    rows = [variation(name) for name in options.rows or RUN_ORDER]
    file = Path(options.table) if options.table else SHIPPED
    if options.data is None:
        if not file.exists():
            raise InputError(f"{file}: no such file")
        results = Results.from_json(file.read_text("utf-8"))
    else:
        results = _train(options, rows, file)
    print(results.to_json() if options.json else text(results), end="")


def _train(options: argparse.Namespace, rows: list[Variation], file: Path) -> Results:
    from transformer.experiments.ablation_runs import gather, make, missing
    from transformer.experiments.ablations import BASE
    from transformer.files.atomic import check_place

    data, out = Path(options.data), Path(options.out)
    check_place(file)
    start = BASE
    if options.compile:
        start = {**BASE, "training": {**BASE["training"], "compile": True}}
    results = gather(out, file)
    left = missing(results, rows, options.seeds)
    for index, (row, seed) in enumerate(left, 1):
        print(f"{index} of {len(left)}: {row.name}, seed {seed}", file=sys.stderr, flush=True)
        with progress_bar(disable=options.quiet, unit=" sentences", delay=1) as report:
            make(
                row, seed, data, out, start=start, device=options.device,
                show_progress=not options.quiet, report=report,
            )  # fmt: skip
        results = gather(out, file)
    return results


def text(results: Results) -> str:
    """Return table 3 as text: our figures, the paper's, and whether they agree."""
    from transformer.experiments.ablation_summary import table

    lines = [
        f"{'':3}{'row':20}{'seeds':>6}{'parameters':>12}{'PPL':>8}{'paper':>7}  "
        f"{'ln PPL - base':22}{'BLEU':>13}{'paper':>7}  BLEU - base"
    ]
    for each in table(results):
        row, group = each.variation, each.variation.group
        start = f"{'' if group == 'base' else group:3}{row.name:20}{len(each.seeds):>6}"
        theirs = f"{row.published.perplexity:>7.2f}", f"{row.published.bleu:>7.1f}"
        if each.nll is None or each.bleu is None or each.parameters is None:
            lines.append(f"{start}{'':>12}{'':>8}{theirs[0]}  {'not run':22}{'':>13}{theirs[1]}")
        else:
            lines.append(
                f"{start}{each.parameters:>12,}{math.exp(each.nll.mean):>8.2f}{theirs[0]}  "
                f"{_difference(each.nll, 3, group):22}"
                f"{each.bleu.mean:>7.1f}{_spread(each.bleu)}{theirs[1]}  "
                f"{_difference(each.bleu, 1, group)}"
            )
    return "\n".join(lines) + "\n"


def _spread(figure: Figure) -> str:
    return f" ± {figure.spread:<3.1f}" if math.isfinite(figure.spread) else " " * 6


def _difference(figure: Figure, digits: int, group: str) -> str:
    if group == "base":
        return ""
    return f"{figure.difference:+.{digits}f} {figure.verdict}"
