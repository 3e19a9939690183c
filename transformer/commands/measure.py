"""`measure`: choose a checkpoint's default decoding, measure it, rewrite its card."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from transformer.commands.options import add_device, add_grid, steps_bar


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
    from transformer.evaluation.measure import Measuring, measure

    with steps_bar() as report:
        how = Measuring(
            Path(options.data), options.beam, options.alpha, options.device,
            keep_scores=options.keep_scores, progress=report,
        )  # fmt: skip
        folder = measure(Path(options.path), how, notes=options.note)
    print(folder)
