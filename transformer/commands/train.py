"""`train`: run a recipe on a folder of text."""

from __future__ import annotations

import argparse
import logging
import os
from pathlib import Path
from typing import Any

from transformer.commands.options import add_device


def add(commands: Any) -> None:
    """Add `train` to the subparsers."""
    train = commands.add_parser("train", help="train a model")
    train.add_argument("recipe", metavar="PRESET_OR_TOML", help="a preset, or a TOML recipe")
    train.add_argument("--data", required=True, metavar="DIR", help="folder of the text")
    train.add_argument("--out", required=True, metavar="DIR", help="folder of the run")
    train.add_argument("--resume", action="store_true", help="continue a run that was stopped")
    train.add_argument("--tensorboard", action="store_true", help="also write TensorBoard events")
    add_device(train)
    train.add_argument("--download", action="store_true", help="download corpora that --data lacks")
    train.add_argument("--quiet", action="store_true", help="no progress bar")
    train.set_defaults(run=_train)


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
