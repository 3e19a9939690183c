"""`parse`: parse sentences into trees."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from transformer.checkpoint.weights import weights_digest
from transformer.commands.options import Model, Sentences, of_kind, progress_bar
from transformer.commands.translate import stdin_lines
from transformer.training.data import find_file, read_lines
from transformer.types import InputError

if TYPE_CHECKING:
    from transformer.measures.parse import Parse
    from transformer.translator import Translator


def parse(
    sentences: Sentences = (),
    *,
    model: Model,
    raw: Annotated[
        bool, "first split off punctuation and clitics; default: split words at spaces"
    ] = False,
    free: Annotated[
        bool, "let the model write anything, and repair it; default: only valid trees"
    ] = False,
    pairs: Annotated[
        bool, "print SENTENCE TAB SYMBOLS, a recipe's training text, without repaired trees"
    ] = False,
    gold: Annotated[
        Path | None, "FILE",
        "instead: parse the sentences of these reference trees, one per line, and print scores, "
        "also for right-branching trees and for the grammar of train.ptb in the same folder, both "
        "from the reference's tags (GUM's trees come from a parser, over manual tags)",
    ] = None,
    json_: Annotated[bool, "with --gold: print JSON"] = False,
) -> None:  # fmt: skip
    """Parse sentences into trees, or score a parser's trees against reference trees."""
    from transformer.evaluation.parsing import baselines, evaluate, load_parser
    from transformer.evaluation.records import BASELINES, stamped

    if gold is not None and (sentences or raw or pairs):
        raise InputError("--gold brings its own sentences")
    if json_ and gold is None:
        raise InputError("--json needs --gold")
    of_kind(model.checkpoint, "checkpoint")
    parser = load_parser(model.checkpoint, model.device, free=free)
    parser.translate([], model.beam, model.alpha)  # checks settings first
    if gold is None:
        done = 0
        for lines in [sentences] if sentences else stdin_lines():
            _print(parser, lines, done, model, raw=raw, pairs=pairs)
            done += len(lines)
        return
    with progress_bar(unit=" sentences") as show:
        results = evaluate(parser, gold, model.beam, model.alpha, show)
        others = baselines(gold, show)
    if json_:
        how = parser.decoding.resolve(model.beam, model.alpha, drawn=False)
        setting, weights = f"{how}, no grammar" if free else how, weights_digest(model.checkpoint)
        trees = read_lines(find_file(gold))
        record = stamped(results, weights, setting, gold.name, trees) | {BASELINES: others}
        for name, values in others.items():
            record[BASELINES][name] = stamped(values, "", "given the tags", gold.name, trees)
        print(json.dumps(record, indent=2))
        return
    for name, value in results.items():
        print(f"{name.replace('_', ' '):<24} {value:g}")
    for name, values in others.items():
        print(f"{f'f1 of {name}':<24} {values['f1']:g}")


def _print(
    parser: "Translator", lines: Sequence[str], before: int, model: Model, *, raw: bool, pairs: bool
) -> None:
    """Print one tree per line; a blank line stays blank."""
    from transformer.evaluation.parsing import parse as parsed
    from transformer.training.corpus import pair
    from transformer.trees.tree import split_words

    sentences = [split_words(line) if raw else line.split() for line in lines]
    for number, (line, words) in enumerate(zip(lines, sentences, strict=True), before + 1):
        try:
            parser.tokenize(" ".join(words))
        except InputError as error:
            raise InputError(f"line {number}: {error}") from None
        if line.strip() and not words:
            raise InputError(f"line {number}: no words")
    nonblank = [words for words in sentences if words]
    with progress_bar(unit=" sentences") as show:
        trees = iter(parsed(parser, nonblank, model.beam, model.alpha, on_parsed=show))
    repaired: list[int] = []
    for number, words in enumerate(sentences, before + 1):
        result: Parse | None = next(trees) if words else None
        if result and result.rebuilt.repairs:
            repaired.append(number)
        if not pairs:
            print(result or "")
        elif result and not result.rebuilt.repairs and result.complete:
            print(*pair(result.tree), sep="\t")
    sys.stdout.flush()
    if repaired:
        share = f"{len(repaired)} of {len(nonblank)}"
        print(f"{share} trees were repaired: {', '.join(map(str, repaired[:20]))}", file=sys.stderr)
