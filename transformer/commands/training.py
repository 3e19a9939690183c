"""`train`, `data` and `publish`: from a corpus to a checkpoint."""

from __future__ import annotations

import argparse
import logging
import os
from pathlib import Path
from typing import Any


def add(commands: Any) -> None:
    """Add them to the command line's subparsers."""
    train = commands.add_parser("train", help="train a model")
    train.add_argument("recipe", metavar="PRESET_OR_TOML", help="a preset, or a TOML recipe")
    train.add_argument("--data", required=True, metavar="DIR", help="folder with the text")
    train.add_argument("--out", required=True, metavar="DIR", help="where the run is kept")
    train.add_argument("--resume", action="store_true", help="go on where the run stopped")
    train.add_argument("--tensorboard", action="store_true", help="also write TensorBoard events")
    train.add_argument("--device", default="auto", help="auto, cpu or cuda")
    train.add_argument("--download", action="store_true", help="fetch the corpora that DIR lacks")
    train.add_argument("--quiet", action="store_true", help="no progress bar")
    train.set_defaults(run=_train)

    data = commands.add_parser("data", help="fetch a public corpus to train on")
    data.add_argument("corpus", choices=("multi30k", "tatoeba"))
    data.add_argument("--out", required=True, metavar="DIR", help="a folder; then train --data DIR")
    data.add_argument(
        "--tgt", default="de", metavar="CODE", help="tatoeba's language beside English; default de"
    )
    data.add_argument("--home", metavar="URL", help="fetch from this address, for a mirror")
    data.add_argument("--sha256", metavar="HEX", help="checksum that tatoeba's archive has to have")
    data.add_argument("--quiet", action="store_true", help="no progress bar")
    data.set_defaults(run=_data)

    publish = commands.add_parser("publish", help="measure a finished run and write its checkpoint")
    publish.add_argument("run_folder", metavar="RUN", help="the --out folder of train")
    publish.add_argument("--data", required=True, metavar="DIR", help="folder with the text")
    publish.add_argument("--out", required=True, metavar="DIR", help="the checkpoint to write")
    publish.add_argument("--beam", type=int, default=5, metavar="N", help="beam size measured with")
    publish.add_argument("--dtype", default="float16", help="float32, float16 or bfloat16")
    publish.add_argument("--device", default="auto", help="auto, cpu or cuda")
    publish.add_argument(
        "--made-by", default="", metavar="COMMAND", help="what trains it again, for the card"
    )
    publish.add_argument(
        "--mix", metavar="PATH", help="a checkpoint whose weights may be mixed in, as val decides"
    )
    publish.add_argument("--note", action="append", default=[], help="a line for the card's limits")
    publish.set_defaults(run=_publish)


def _train(options: argparse.Namespace) -> None:
    from transformer.training.recipe import Recipe

    recipe = Recipe.load(options.recipe)
    from transformer.training.run import train

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    folder = train(
        recipe,
        Path(options.data),
        Path(options.out),
        device=options.device,
        resume=options.resume,
        download=options.download,
        tensorboard=options.tensorboard,
        show_progress=not options.quiet,
    )
    if os.environ.get("RANK", "0") == "0":  # of several processes, one speaks
        print(folder)


def _data(options: argparse.Namespace) -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    from transformer.training.download import fetch

    folder = fetch(
        options.corpus,
        Path(options.out),
        tgt=options.tgt,
        home=options.home,
        sha256=options.sha256,
        show_progress=not options.quiet,
    )
    print(folder)


def _publish(options: argparse.Namespace) -> None:
    from transformer.training.publish import publish

    folder = publish(
        Path(options.run_folder),
        Path(options.data),
        Path(options.out),
        beam_size=options.beam,
        device=options.device,
        dtype=options.dtype,
        made_by=options.made_by,
        notes=options.note,
        mix=Path(options.mix) if options.mix else None,
    )
    print(folder)
