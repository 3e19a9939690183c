"""`import`: a model of another library, as a checkpoint of this project."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from transformer.importers.registry import FORMATS


def add(commands: Any) -> None:
    """Add `import` to the subparsers."""
    parser = commands.add_parser("import", help="turn another library's model into a checkpoint")
    kinds = "; ".join(f"{each.name}: {each.title}" for each in FORMATS.values())
    parser.add_argument("kind", choices=tuple(FORMATS), help=kinds)
    parser.add_argument(
        "source", nargs="?", metavar="DIR",
        help="its folder; or owner/name on the Hugging Face hub; of joeynmt and fairseq also the "
        "checkpoint's file",
    )  # fmt: skip
    parser.add_argument("--out", metavar="PATH", help="the checkpoint to write")
    parser.add_argument(
        "--moses", action=argparse.BooleanOptionalAction,
        help="fairseq: text was prepared by the Moses tokenizer; default where merges cut it",
    )  # fmt: skip
    parser.add_argument(
        "--explain", action="store_true",
        help="joeynmt, fairseq: print how to convert a file that is refused",
    )  # fmt: skip
    parser.set_defaults(run=_import, usage_error=parser.error)


def _import(options: argparse.Namespace) -> None:
    from tqdm import tqdm

    from transformer.files import hub
    from transformer.importers import explanations

    if options.explain:
        if options.kind not in explanations.KEPT:
            options.usage_error(f"nothing is to be converted before {options.kind} is imported")
        print(explanations.explanation(options.kind), end="")
        return
    if options.source is None or options.out is None:
        options.usage_error("say what to import, and where to with --out")
    more: dict[str, Any] = {} if options.moses is None else {"moses": options.moses}
    if more and options.kind != "fairseq":
        options.usage_error(f"--moses is not said of {options.kind}, whose files say it")
    kind, out = FORMATS[options.kind], Path(options.out)
    if options.kind in explanations.KEPT and Path(options.source).is_file():
        print(kind.importer(Path(options.source), out, name=options.source, **more))
        return
    with tqdm(unit="B", unit_scale=True, disable=None, leave=False) as bar:

        def report(received: int, total: int) -> None:
            bar.total = total
            bar.update(received - bar.n)

        with hub.opened(options.source, kind.files, out.parent, report) as folder:
            path = kind.importer(folder, out, name=options.source, **more)
    print(path)
