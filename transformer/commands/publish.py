"""`publish`: turn a finished run into a checkpoint with measured figures and a card."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from transformer.commands.options import add_device, add_grid, progress_bar


def add(commands: Any) -> None:
    """Add `publish` to the subparsers."""
    publish = commands.add_parser(
        "publish", help="turn a finished run into a checkpoint with figures"
    )
    publish.add_argument("run_folder", metavar="RUN", help="the --out folder of train")
    publish.add_argument("--data", required=True, metavar="DIR", help="folder of the text")
    publish.add_argument("--out", required=True, metavar="DIR", help="the checkpoint to write")
    add_grid(publish)
    publish.add_argument(
        "--dtype", default="float16", help="float32, float16 or bfloat16; default: float16"
    )
    add_device(publish)
    publish.add_argument(
        "--made-by",
        default="",
        metavar="COMMAND",
        help="the command that trains it again, for the card",
    )
    publish.add_argument(
        "--mix", metavar="PATH", help="a checkpoint to mix in, by the share that scores best on val"
    )
    publish.add_argument(
        "--share", type=float, metavar="S",
        help="take this share of --mix, 0 to 1; default: the one that scores best on val",
    )  # fmt: skip
    publish.add_argument(
        "--note",
        action="append",
        default=[],
        help="a sentence for the card's limits, may be repeated",
    )
    publish.add_argument(
        "--baseline", action="append", nargs=2, metavar=("NAME", "PATH"), default=[],
        help="of a parser: another one to score beside it, may be repeated",
    )  # fmt: skip
    publish.set_defaults(run=_publish)


def _publish(options: argparse.Namespace) -> None:
    from transformer.evaluation.measure import read_metrics
    from transformer.evaluation.publish import publish
    from transformer.training.treebank import TREE

    recipe, _ = read_metrics(Path(options.run_folder))
    if recipe.stack is not None:
        _publish_stack(options)
        return
    if recipe.data.tgt == TREE:
        _publish_parser(options)
        return
    folder = publish(
        Path(options.run_folder),
        Path(options.data),
        Path(options.out),
        beams=options.beam,
        alphas=options.alpha,
        device=options.device,
        dtype=options.dtype,
        made_by=options.made_by,
        notes=options.note,
        mix=Path(options.mix) if options.mix else None,
        share=options.share,
    )
    print(folder)


def _publish_stack(options: argparse.Namespace) -> None:
    from transformer.config import ConfigError
    from transformer.evaluation.descendants import publish_stack

    if options.mix or options.share is not None:
        raise ConfigError("--mix and --share are for a model of two stacks")
    folder = publish_stack(
        Path(options.run_folder),
        Path(options.data),
        Path(options.out),
        device=options.device,
        dtype=options.dtype,
        made_by=options.made_by,
        notes=options.note,
    )
    print(folder)


def _publish_parser(options: argparse.Namespace) -> None:
    from transformer.config import ConfigError
    from transformer.parsing.publish import publish_parser

    if options.mix or options.share is not None:
        raise ConfigError("--mix and --share are for translations: trees have no BLEU")
    with progress_bar(unit=" sentences", delay=1, disable=None) as show:
        folder = publish_parser(
            Path(options.run_folder),
            Path(options.data),
            Path(options.out),
            device=options.device,
            dtype=options.dtype,
            made_by=options.made_by,
            notes=options.note,
            baselines={name: Path(path) for name, path in options.baseline},
            progress=show,
        )
    print(folder)
