"""`evaluate`: translate a file and score it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from transformer.commands.options import add_beam, add_checkpoint, load, progress_bar


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_checkpoint(parser)
    add_beam(parser)
    parser.add_argument(
        "--src", required=True, metavar="FILE", help="source sentences, plain or .gz"
    )
    parser.add_argument(
        "--ref", required=True, metavar="FILE", help="reference translations, plain or .gz"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--protocol", metavar="NAME",
        help="multi30k-lc-tok: also BLEU on lower-cased Moses tokens (lc_tok_bleu)",
    )  # fmt: skip
    parser.add_argument(
        "--language", metavar="CODE",
        help="target language for --protocol; default: from the name of --ref, as in test.de.gz",
    )  # fmt: skip
    parser.add_argument("--output", metavar="FILE", help="also write the translations here")


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from transformer.evaluation.scores import evaluate_files
    from transformer.files.atomic import check_place, write_atomic

    if options.output:
        check_place(Path(options.output))
    translator = load(options)
    with progress_bar(unit=" sentences", delay=1, mininterval=0.5) as show:
        result = evaluate_files(
            translator,
            options.src,
            options.ref,
            beam_size=options.beam,
            alpha=options.alpha,
            protocol=options.protocol,
            language=options.language,
            on_translated=show,
        )
    if options.output:
        text = "".join(f"{line}\n" for line in result.hypotheses)
        write_atomic(Path(options.output), text.encode())
    values = result.to_dict()
    if options.json:
        print(json.dumps(values, indent=2))
    else:
        for name, value in values.items():
            print(f"{name:<18} {value}")
