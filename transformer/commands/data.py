"""`data`: download a public corpus to train on, or sample one."""

from __future__ import annotations

import argparse
import logging
import random
from pathlib import Path


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("corpus", help="multi30k or tatoeba; with --sample any that a recipe names")
    parser.add_argument(
        "--out", required=True, metavar="DIR", help="where to put it, then `train --data DIR`"
    )
    parser.add_argument(
        "--sample", type=int, metavar="N", help="show N training pairs of a corpus in DIR instead"
    )
    parser.add_argument("--src", default="en", metavar="CODE", help="with --sample; default: en")
    parser.add_argument(
        "--tgt", default="de", metavar="CODE", help="the language beside English; default: de"
    )
    parser.add_argument("--home", metavar="URL", help="address of a mirror")
    parser.add_argument("--sha256", metavar="HEX", help="tatoeba: expected checksum of the archive")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def run(options: argparse.Namespace) -> None:
    """Run the command."""
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
