"""Models of other libraries, read into this project's own: afterwards they are checkpoints."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any


def add_command(commands: Any) -> None:
    """Add `import` to the command line's subparsers."""
    parser = commands.add_parser("import", help="turn another library's model into a checkpoint")
    parser.add_argument("kind", choices=("marian",), help="marian: Marian and OPUS-MT")
    parser.add_argument(
        "source", metavar="DIR", help="its folder; or owner/name on the Hugging Face hub"
    )
    parser.add_argument("--out", required=True, metavar="PATH", help="the checkpoint to write")
    parser.set_defaults(run=_import)


def _import(options: argparse.Namespace) -> None:
    from transformer.importers import hub, marian

    folder = hub.folder_of(options.source, marian.FILES)
    imports: dict[str, Callable[..., Path]] = {"marian": marian.import_marian}
    path = imports[options.kind](folder, Path(options.out), name=options.source)
    print(path)  # noqa: T201 - part of the command line
