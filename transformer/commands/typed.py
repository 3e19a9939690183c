"""`typed`: translate 200 sentences as visitors type them, and judge each."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from transformer.commands.options import add_beam, add_checkpoint, load, progress_bar

if TYPE_CHECKING:
    from transformer.evaluation.typed import Verdict


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_checkpoint(parser)
    add_beam(parser)
    parser.add_argument(
        "--languages", metavar="SRC-TGT",
        help="such as en-de; default: those of the text that the model was trained on",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from transformer.evaluation.typed import judge, to_dict, typed_sentences

    src, _, tgt = (options.languages or _languages(options.checkpoint)).partition("-")
    sentences = typed_sentences(src, tgt)
    translator = load(options)
    decoding = translator.decoding.resolve(options.beam, options.alpha, drawn=False)
    with progress_bar(unit=" sentences", delay=1, disable=None) as show:
        verdicts = judge(translator, sentences, decoding, show)
    if options.json:
        print(json.dumps(to_dict(verdicts), indent=2, ensure_ascii=False))
    else:
        _print(verdicts)


def _languages(checkpoint: str) -> str:
    """Return the languages of a checkpoint's training text."""
    from transformer.config import ConfigError
    from transformer.evaluation.measure import read_metrics

    try:
        recipe, _ = read_metrics(Path(checkpoint))
    except ConfigError as error:
        raise ConfigError(f"{error}; say what it translates with --languages") from None
    return f"{recipe.data.src}-{recipe.data.tgt}"


def _print(verdicts: tuple[Verdict, ...]) -> None:
    from transformer.evaluation.typed import by_topic

    for each in verdicts:
        if not each.right:
            print(f"{each.source}\n  {each.translation}\n  instead of: {each.reference}")
    print()
    for topic, (right, n) in by_topic(verdicts).items():
        print(f"{topic:<14} {right:>3} of {n}")
    print(f"{'right':<14} {sum(each.right for each in verdicts):>3} of {len(verdicts)}")
