"""`evaluate`: translate a file and score it against another."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from transformer.commands.options import add_beam, add_checkpoint, load, progress_bar


def add(commands: Any) -> None:
    """Add `evaluate` to the subparsers."""
    evaluate = commands.add_parser("evaluate", help="translate a file and score it")
    add_checkpoint(evaluate)
    add_beam(evaluate)
    evaluate.add_argument(
        "--src", required=True, metavar="FILE", help="source sentences, plain or .gz"
    )
    evaluate.add_argument(
        "--ref", required=True, metavar="FILE", help="reference translations, plain or .gz"
    )
    evaluate.add_argument("--json", action="store_true", help="print JSON")
    evaluate.add_argument(
        "--protocol", metavar="NAME",
        help="multi30k-lc-tok: also BLEU on lower-cased Moses tokens (lc_tok_bleu)",
    )  # fmt: skip
    evaluate.add_argument(
        "--language", metavar="CODE",
        help="target language for --protocol; default: from the name of --ref, as in test.de.gz",
    )  # fmt: skip
    evaluate.add_argument("--output", metavar="FILE", help="also write the translations here")
    evaluate.set_defaults(run=_evaluate)


def _evaluate(options: argparse.Namespace) -> None:
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
