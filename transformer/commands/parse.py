"""`parse`: parse sentences into trees, or score a parser on gold trees."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from transformer.commands.options import add_beam, add_checkpoint, progress_bar
from transformer.commands.translate import stdin_lines

if TYPE_CHECKING:
    from transformer.parsing.reading import Parse
    from transformer.translator import Translator


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_checkpoint(parser)
    add_beam(parser)
    parser.add_argument(
        "sentences", nargs="*", metavar="SENTENCE",
        help="default: one sentence a line on standard input",
    )  # fmt: skip
    parser.add_argument(
        "--raw", action="store_true",
        help="split off punctuation and clitics first; default: words are split at spaces",
    )  # fmt: skip
    parser.add_argument(
        "--free", action="store_true",
        help="let the model write anything, and repair it; default: only trees of the sentence",
    )  # fmt: skip
    parser.add_argument(
        "--pairs", action="store_true",
        help="print SENTENCE TAB SYMBOLS, training text of a recipe, without repaired trees",
    )  # fmt: skip
    parser.add_argument(
        "--gold", metavar="FILE", type=Path,
        help="instead: parse the sentences of these trees, one a line, and print scores",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="with --gold: print JSON")


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from transformer.errors import InputError
    from transformer.parsing.parser import load_parser

    if options.gold is not None and (options.sentences or options.raw or options.pairs):
        raise InputError("--gold brings its own sentences")
    if options.json and options.gold is None:
        raise InputError("--json needs --gold")
    parser = load_parser(options.checkpoint, options.device, free=options.free)
    parser.translate([], options.beam, options.alpha)  # complains about settings first
    if options.gold is not None:
        _score(parser, options)
    elif options.sentences:
        _print(parser, options.sentences, 0, options)
    else:
        done = 0
        for lines in stdin_lines():
            _print(parser, lines, done, options)
            done += len(lines)


def _print(parser: Translator, lines: list[str], before: int, options: argparse.Namespace) -> None:
    """Print one tree a line; a blank line stays blank."""
    from transformer.errors import InputError
    from transformer.parsing.parser import parse
    from transformer.training.treebank import pair
    from transformer.trees.words import split_words

    sentences = [split_words(line) if options.raw else line.split() for line in lines]
    for number, (line, words) in enumerate(zip(lines, sentences, strict=True), before + 1):
        try:
            parser.tokenize(" ".join(words))
        except InputError as error:
            raise InputError(f"line {number}: {error}") from None
        if line.strip() and not words:
            raise InputError(f"line {number}: no words")
    asked = [words for words in sentences if words]
    with progress_bar(unit=" sentences", delay=1, disable=None) as show:
        found = iter(parse(parser, asked, options.beam, options.alpha, on_parsed=show))
    repaired: list[int] = []
    for number, words in enumerate(sentences, before + 1):
        each: Parse | None = next(found) if words else None
        if each and each.rebuilt.repairs:
            repaired.append(number)
        if not options.pairs:
            print(each or "")
        elif each and not each.rebuilt.repairs and each.complete:
            print(*pair(each.tree), sep="\t")
    sys.stdout.flush()
    if repaired:
        share = f"{len(repaired)} of {len(asked)}"
        print(f"{share} trees were repaired: {', '.join(map(str, repaired[:20]))}", file=sys.stderr)


def _score(parser: Translator, options: argparse.Namespace) -> None:
    from transformer.parsing.parser import evaluate

    with progress_bar(unit=" sentences", delay=1, disable=None) as show:
        results = evaluate(parser, options.gold, options.beam, options.alpha, show)
    if options.json:
        print(json.dumps(results, indent=2))
        return
    for name, value in results.items():
        print(f"{name.replace('_', ' '):<24} {value:g}")
