"""`measure`: choose a checkpoint's default decoding, measure it, rewrite its card."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from transformer.commands.options import add_device, add_grid


def add(commands: Any) -> None:
    """Add `measure` to the subparsers."""
    measure = commands.add_parser(
        "measure", help="choose a checkpoint's default decoding and measure it on the test sets"
    )
    measure.add_argument("path", metavar="CHECKPOINT", help="a folder that publish wrote")
    measure.add_argument("--data", required=True, metavar="DIR", help="folder of the text")
    add_grid(measure)
    measure.add_argument(
        "--note", action="append", metavar="TEXT",
        help="a sentence for the card's limits, may be repeated; default: those of metrics.json",
    )  # fmt: skip
    measure.add_argument(
        "--keep-scores", action="store_true",
        help="keep the decoding and the scores of the test sets; measure only the length of the "
        "training text and the typed sentences",
    )  # fmt: skip
    add_device(measure)
    measure.set_defaults(run=_measure)


def _measure(options: argparse.Namespace) -> None:
    from tqdm import tqdm

    from transformer.evaluation.descendants import remeasure_stack
    from transformer.evaluation.measure import measure, read_metrics
    from transformer.evaluation.tune import grid

    grid(options.beam, options.alpha)  # checks the settings before any work
    if read_metrics(Path(options.path))[0].stack is not None:
        folder = Path(options.path)
        print(
            remeasure_stack(folder, Path(options.data), device=options.device, notes=options.note)
        )
        return
    with tqdm(delay=1, disable=None, file=sys.stderr) as bar:

        def report(what: str, done: int, total: int) -> None:
            bar.set_description(what, refresh=False)
            bar.total, bar.n = total, done
            bar.refresh()

        folder = measure(
            Path(options.path),
            Path(options.data),
            beams=options.beam,
            alphas=options.alpha,
            device=options.device,
            notes=options.note,
            keep_scores=options.keep_scores,
            progress=report,
        )
    print(folder)
