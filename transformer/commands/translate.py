"""`translate` and `evaluate`: sentences in, sentences and scores out."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from transformer.commands.decoding import add_decoding, add_steering, listed, load, steering

if TYPE_CHECKING:
    from transformer.search.records import Translation

#: Most sentences that a line about what they hold names.
_NAMED = 10


def add(commands: Any) -> None:
    """Add both to the command line's subparsers."""
    translate = commands.add_parser("translate", help="translate sentences")
    add_decoding(translate)
    add_steering(translate)
    translate.add_argument(
        "sentences", nargs="*", metavar="SENTENCE",
        help="without one, each line of standard input is translated to a line",
    )  # fmt: skip
    translate.set_defaults(run=_translate)

    evaluate = commands.add_parser("evaluate", help="translate a file and score it")
    add_decoding(evaluate)
    evaluate.add_argument("--src", required=True, metavar="FILE", help="plain or .gz text")
    evaluate.add_argument("--ref", required=True, metavar="FILE", help="plain or .gz text")
    evaluate.add_argument("--json", action="store_true", help="print JSON")
    evaluate.add_argument(
        "--protocol", metavar="NAME",
        help="multi30k-lc-tok: also BLEU on lower-cased Moses tokens (lc_tok_bleu)",
    )  # fmt: skip
    evaluate.add_argument(
        "--language", metavar="CODE",
        help="the target's, for --protocol; default: from the name of --ref, as in test.de.gz",
    )  # fmt: skip
    evaluate.add_argument("--output", metavar="FILE", help="also write the translations here")
    evaluate.set_defaults(run=_evaluate)


def _translate(options: argparse.Namespace) -> None:
    from transformer.errors import InputError

    translator = load(options)
    settings = steering(options)
    translator.translate([], **settings)  # complains about settings before any input is read
    if options.sentences:
        done = translator.translate(options.sentences, **settings)
        for each in done:
            print(each.text)
        _say_unknown(done, "sentence", 0)
        return
    n_read = 0
    for lines in _stdin_lines():
        bad: InputError | None = None
        for index, line in enumerate(lines):
            try:
                translator.tokenize(line)
            except InputError as error:
                bad, lines = InputError(f"line {n_read + index + 1}: {error}"), lines[:index]
                break
        done = translator.translate(lines, **settings)
        for each in done:
            print(each.text)
        sys.stdout.flush()
        _say_unknown(done, "line", n_read)
        if bad is not None:
            raise bad
        n_read += len(lines)


def _say_unknown(done: Sequence[Translation], what: str, before: int) -> None:
    """Say on standard error, in one line, what of these sentences the model does not know."""
    found = {str(before + n): each.unknown for n, each in enumerate(done, 1) if each.unknown}
    if found:
        where = ", ".join([*found][:_NAMED]) + (" …" if len(found) > _NAMED else "")
        unknown = listed(text for texts in found.values() for text in texts)
        plural = "s" if len(found) > 1 else ""
        print(f"{what}{plural} {where}: the model does not know {unknown}", file=sys.stderr)


def _stdin_lines() -> Iterator[list[str]]:
    """Lines of standard input, as many at a time as are there.

    So a file is translated in large batches, while a program or a person that writes one line and
    waits gets its answer. Lines end at a newline only; bytes that are not UTF-8 become U+FFFD.
    """
    rest = b""
    stdin = cast(BufferedReader, sys.stdin.buffer)
    while block := stdin.read1(1 << 18):
        *lines, rest = (rest + block).split(b"\n")
        if lines:
            yield [line.decode("utf-8", errors="replace") for line in lines]
    if rest:
        yield [rest.decode("utf-8", errors="replace")]


def _evaluate(options: argparse.Namespace) -> None:
    from tqdm import tqdm

    from transformer.files.atomic import check_place, write_atomic
    from transformer.training.evaluate import evaluate_files

    if options.output:
        check_place(Path(options.output))
    translator = load(options)
    with tqdm(unit=" sentences", delay=1, mininterval=0.5, file=sys.stderr) as bar:

        def show(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

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
