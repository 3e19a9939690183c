"""`data`: download a public corpus to train on, or show pairs of one."""

from __future__ import annotations

import argparse
import logging
import random
from pathlib import Path
from typing import Any


def add(commands: Any) -> None:
    """Add `data` to the subparsers."""
    data = commands.add_parser("data", help="download a public corpus to train on, or sample one")
    data.add_argument("corpus", help="multi30k or tatoeba; with --sample any that a recipe names")
    data.add_argument(
        "--out", required=True, metavar="DIR", help="where to put it, then `train --data DIR`"
    )
    data.add_argument(
        "--sample", type=int, metavar="N", help="show N training pairs of a corpus in DIR instead"
    )
    data.add_argument("--src", default="en", metavar="CODE", help="with --sample; default: en")
    data.add_argument(
        "--tgt", default="de", metavar="CODE", help="the language beside English; default: de"
    )
    data.add_argument("--home", metavar="URL", help="address of a mirror")
    data.add_argument("--sha256", metavar="HEX", help="tatoeba: expected checksum of the archive")
    data.add_argument("--quiet", action="store_true", help="no progress bar")
    data.set_defaults(run=_data)


def _data(options: argparse.Namespace) -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if options.sample is not None:
        _sample(options)
        return
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


def _sample(options: argparse.Namespace) -> None:
    from transformer.training.corpus import load_corpus
    from transformer.training.recipe import DataRecipe

    recipe = DataRecipe((options.corpus,), options.src, options.tgt)
    pairs = load_corpus(recipe, Path(options.out)).train
    for pair in random.sample(pairs, min(max(options.sample, 0), len(pairs))):
        print(*pair, sep="\t")
