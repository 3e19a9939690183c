"""`publish`: turn a finished run into a checkpoint with figures."""

from __future__ import annotations

import argparse
from pathlib import Path

from transformer.commands.options import add_device, add_grid, steps_bar


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("run_folder", metavar="RUN", help="the --out folder of train")
    parser.add_argument("--data", required=True, metavar="DIR", help="folder of the text")
    parser.add_argument("--out", required=True, metavar="DIR", help="the checkpoint to write")
    add_grid(parser)
    parser.add_argument(
        "--dtype", default="float16", help="float32, float16 or bfloat16; default: float16"
    )
    add_device(parser)
    parser.add_argument(
        "--made-by",
        default="",
        metavar="COMMAND",
        help="the command that trains it again, for the card",
    )
    parser.add_argument(
        "--mix", metavar="PATH", help="a checkpoint to mix in, by the share that scores best on val"
    )
    parser.add_argument(
        "--share", type=float, metavar="S",
        help="take this share of --mix, 0 to 1; default: the one that scores best on val",
    )  # fmt: skip
    parser.add_argument(
        "--note",
        action="append",
        default=[],
        help="a sentence for the card's limits, may be repeated",
    )
    parser.add_argument(
        "--baseline", action="append", nargs=2, metavar=("NAME", "PATH"), default=[],
        help="of a parser: another one to score beside it, may be repeated",
    )  # fmt: skip


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from transformer.evaluation.measure import Measuring
    from transformer.evaluation.publish import publish

    with steps_bar() as report:
        how = Measuring(
            Path(options.data), options.beam, options.alpha, options.device,
            baselines={name: Path(path) for name, path in options.baseline}, progress=report,
        )  # fmt: skip
        folder = publish(
            Path(options.run_folder),
            Path(options.out),
            how,
            dtype=options.dtype,
            made_by=options.made_by,
            notes=options.note,
            mix=Path(options.mix) if options.mix else None,
            share=options.share,
        )
    print(folder)
