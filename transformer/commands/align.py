"""`align`: score each head's word alignment against links drawn by people."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from transformer.commands.options import add_device, progress_bar


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="a translator from or to German")
    parser.add_argument("--data", required=True, metavar="DIR", help="folder of alignment-de-en")
    parser.add_argument("--write", action="store_true", help="keep the table in its metrics.json")
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    add_device(parser)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from transformer.catalogue import open_tracer
    from transformer.checkpoint.folder import METRICS
    from transformer.config import ConfigError
    from transformer.evaluation.alignment import ALIGNMENT, best_head, head_errors, read_gold
    from transformer.evaluation.measure import read_metrics
    from transformer.files.atomic import write_atomic
    from transformer.one_stack.tracer import StackModel
    from transformer.translator import Translator

    folder = Path(options.checkpoint)
    recipe, metrics = read_metrics(folder)
    aligned = read_gold(Path(options.data), recipe.data.src)
    model = open_tracer(folder, options.device)
    writes = isinstance(model, Translator) or (
        isinstance(model, StackModel) and model.config.task == "translate"
    )
    if not writes or {recipe.data.src, recipe.data.tgt} != {"de", "en"}:
        raise ConfigError(f"{folder}: does not translate between German and English")
    assert isinstance(model, Translator | StackModel)
    with progress_bar(unit=" sentences", delay=1, disable=None) as show:
        found = head_errors(model, aligned, show)
    if options.write:
        kept = json.dumps(metrics | {ALIGNMENT: found}, indent=2, ensure_ascii=False) + "\n"
        write_atomic(folder / METRICS, kept.encode())
    if options.json:
        print(json.dumps(found))
        return
    for row in ("predicting", "reading"):
        layer, head, error = best_head(found[row])
        print(f"{row} row: best is layer {layer + 1}, head {head + 1}, AER {100 * error:.1f}%")
        for number, errors in enumerate(found[row], 1):
            print(f"  layer {number}: " + " ".join(f"{100 * each:5.1f}" for each in errors))
