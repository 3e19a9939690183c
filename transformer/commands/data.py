"""`data`: download a public corpus to train on."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import Any


def add(commands: Any) -> None:
    """Add `data` to the subparsers."""
    data = commands.add_parser("data", help="download a public corpus to train on")
    data.add_argument("corpus", choices=("multi30k", "tatoeba"))
    data.add_argument(
        "--out", required=True, metavar="DIR", help="where to put it, then `train --data DIR`"
    )
    data.add_argument(
        "--tgt",
        default="de",
        metavar="CODE",
        help="tatoeba: the language beside English; default: de",
    )
    data.add_argument("--home", metavar="URL", help="address of a mirror")
    data.add_argument("--sha256", metavar="HEX", help="tatoeba: expected checksum of the archive")
    data.add_argument("--quiet", action="store_true", help="no progress bar")
    data.set_defaults(run=_data)


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
