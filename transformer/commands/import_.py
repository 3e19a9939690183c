"""`import`: turn another library's model into a checkpoint."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from transformer.commands.options import progress_bar
from transformer.importers.registry import FORMATS


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    kinds = "; ".join(f"{each.name}: {each.title}" for each in FORMATS.values())
    parser.add_argument("kind", choices=tuple(FORMATS), help=kinds)
    parser.add_argument(
        "source", nargs="?", metavar="DIR",
        help="its folder; owner/name on the Hugging Face hub; or a checkpoint file of joeynmt or "
        "fairseq",
    )  # fmt: skip
    parser.add_argument("--out", metavar="PATH", help="the checkpoint to write")
    parser.add_argument(
        "--moses", action=argparse.BooleanOptionalAction,
        help="fairseq: the text was tokenised by Moses; default if it is split by BPE merges",
    )  # fmt: skip
    parser.add_argument(
        "--explain", action="store_true",
        help="joeynmt, fairseq: print a script that converts a refused file",
    )  # fmt: skip
    parser.set_defaults(usage_error=parser.error)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from transformer.files import hub
    from transformer.importers.torch_content import KEPT, explanation

    if options.explain:
        if options.kind not in KEPT:
            options.usage_error(f"{options.kind} files need no conversion")
        print(explanation(options.kind), end="")
        return
    if options.source is None or options.out is None:
        options.usage_error("give DIR and --out PATH")
    more: dict[str, Any] = {} if options.moses is None else {"moses": options.moses}
    if more and options.kind != "fairseq":
        options.usage_error(f"--moses is for fairseq; {options.kind} files record it")
    kind, out = FORMATS[options.kind], Path(options.out)
    if options.kind in KEPT and Path(options.source).is_file():
        print(kind.convert(Path(options.source), out, name=options.source, **more))
        return
    with (
        progress_bar(unit="B", unit_scale=True, disable=None, leave=False) as report,
        hub.opened(options.source, kind.files, out.parent, report) as folder,
    ):
        path = kind.convert(folder, out, name=options.source, **more)
    print(path)
