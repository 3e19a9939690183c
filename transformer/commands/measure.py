"""`measure`: choose a checkpoint's default decoding and measure it on the test sets."""

from __future__ import annotations

import argparse
from pathlib import Path

from transformer.commands.options import add_device, add_grid, steps_bar


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("path", metavar="CHECKPOINT", help="a folder that publish wrote")
    parser.add_argument("--data", required=True, metavar="DIR", help="folder of the text")
    add_grid(parser)
    parser.add_argument(
        "--note", action="append", metavar="TEXT",
        help="a sentence for the card's limits, may be repeated; default: those of metrics.json",
    )  # fmt: skip
    parser.add_argument(
        "--keep-scores", action="store_true",
        help="keep the decoding and the scores of the test sets; measure only the length of the "
        "training text and the typed sentences",
    )  # fmt: skip
    add_device(parser)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from transformer.evaluation.measure import Measuring, measure

    with steps_bar() as report:
        how = Measuring(
            Path(options.data), options.beam, options.alpha, options.device,
            keep_scores=options.keep_scores, progress=report,
        )  # fmt: skip
        folder = measure(Path(options.path), how, notes=options.note)
    print(folder)
