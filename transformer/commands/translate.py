"""`translate`: translate sentences from the command line or standard input."""

import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from io import BufferedReader
from typing import cast

from transformer.commands.options import Dask, Sentences, Steering, listed, of_kind, whole_file
from transformer.search.records import Translation
from transformer.types import InputError

#: Maximum sentence numbers in a comment.
_NAMED = 10


def translate(sentences: Sentences = (), *, model: Steering, dask: Dask = None) -> None:
    """Translate sentences."""
    from transformer.models.catalogue import describe
    from transformer.translator import Translator

    ref = of_kind(model.checkpoint, "checkpoint", "huggingface")
    translator = model.open(ref)
    settings, own = model.settings(), isinstance(translator, Translator)
    translator.translate([], **settings)  # checks settings before any input is read
    entry, n_read, batches = describe(ref), 0, [sentences] if sentences else stdin_lines()
    if dask is not None:  # a whole file
        batches = [[*itertools.chain(*batches)]]
    elif not own:  # other models translate one sentence at a time
        batches = ([line] for lines in batches for line in lines)
    for raw in batches:
        lines = [entry.prefixed(line, model.prefix_text) for line in raw]
        if not model.prefix_text and (note := next(filter(None, map(entry.lacks_prefix, raw)), "")):
            print(f"{note}; see --prefix-text", file=sys.stderr)
            entry = replace(entry, prefixes={})  # said once
        bad: InputError | None = None
        for index, line in enumerate(lines if own and not sentences else ()):
            try:
                translator.tokenize(line)
            except InputError as error:
                bad, lines = InputError(f"line {n_read + index + 1}: {error}"), lines[:index]
                break
        try:
            if dask is None:
                done = translator.translate(lines, **settings)
            else:
                done = whole_file(dask, model, lines)
        except InputError as error:
            reason = str(error).removeprefix("sentence 1: ")
            raise error if own else InputError(f"line {n_read + 1}: {reason}") from None
        for translation in done:
            print(translation.text)
        sys.stdout.flush()
        _comment(done, "sentence" if sentences else "line", n_read)
        if bad is not None:
            raise bad
        n_read += len(lines)


def _comment(done: "Sequence[Translation]", what: str, before: int) -> None:
    """Report unknown characters and loops on standard error, one line for each kind."""
    from transformer.search.loops import find_loop

    numbered = [*enumerate(done, before + 1)]
    if unknown := {n: item.unknown for n, item in numbered if item.unknown}:
        texts = listed(text for texts in unknown.values() for text in texts)
        print(f"{_where(what, [*unknown])}: the model does not know {texts}", file=sys.stderr)
    ends = {n: find_loop(item.text) for n, item in numbered if not item.complete}
    if loops := {n: loop.repeated for n, loop in ends.items() if loop is not None}:
        comment = f"the model repeats {listed(loops.values())} up to the length limit"
        print(f"{_where(what, [*loops])}: {comment}", file=sys.stderr)


def _where(what: str, numbers: Sequence[int]) -> str:
    """Return "line 3", or "lines 3, 5" with at most `_NAMED` numbers."""
    more = " …" if len(numbers) > _NAMED else ""
    return f"{what}{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers[:_NAMED]))}{more}"


def stdin_lines() -> Iterator[list[str]]:
    """Yield the lines of standard input that have arrived, in batches.

    A file is translated in large batches, while an interactive writer is answered line by line.
    Lines end at a newline, with or without a carriage return; bytes that are not UTF-8 become
    U+FFFD.
    """
    rest = b""
    stdin = cast(BufferedReader, sys.stdin.buffer)
    while block := stdin.read1(1 << 18):
        *lines, rest = (rest + block).split(b"\n")
        if lines:
            yield [_decoded(line) for line in lines]
    if rest:
        yield [_decoded(rest)]


def _decoded(line: bytes) -> str:
    return line.removesuffix(b"\r").decode("utf-8", errors="replace")
