"""`align`: link the words of translations, or score every head's links."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast, get_args

from transformer.checkpoint.weights import weights_digest
from transformer.commands import options
from transformer.config import ConfigError
from transformer.files.folders import check_place, write_atomic
from transformer.training.data import find_file, read_lines, read_parallel
from transformer.types import InputError


@dataclass(frozen=True, kw_only=True)
class Place:
    """Options for the map that links are taken from."""

    measure: Annotated[
        str, "NAME", "weight, norm, zeroing, contribution or effect of each edge"
    ] = "weight"
    layer: Annotated[
        int | None, "N", "decoder layer, from 1; default: the best known, or all of them"
    ] = None
    head: Annotated[int | None, "N", "head, from 1; default: the best known, or all together"] = (
        None
    )
    row: Annotated[
        str | None, "ROW", "predicting (the row that writes a word) or reading (the next one)"
    ] = None
    units: Annotated[
        str, "UNITS", "spaces (as Pharaoh counts), words (also in scripts without spaces) or tokens"
    ] = "spaces"


class Linked(NamedTuple):
    """Words and tokens of a sentence pair with their links."""

    source: list[list[str]]  # words as lists of tokens
    target: list[list[str]]
    links: list[tuple[int, int]]  # of words
    token_links: list[tuple[int, int]]


def align(
    *,
    checkpoint: options.Checkpoint,
    src: Annotated[Path | None, "FILE", "sentences, plain or .gz; default: standard input"] = None,
    tgt: Annotated[
        Path | None, "FILE", "their translations; default: the model's own"
    ] = None,
    pharaoh: Annotated[
        Path | None, "FILE", "write word links such as 0-0 1-2; default: standard output"
    ] = None,
    subwords: Annotated[Path | None, "FILE", "write links of tokens too"] = None,
    words: Annotated[
        Path | None, "FILE", "write words, tokens and links too, one JSON object a line"
    ] = None,
    place: Place,
    data: Annotated[
        Path | None, "DIR", "instead: score every head on alignment-de-en in this folder"
    ] = None,
    write: Annotated[bool, "with --data: save the table in the checkpoint's metrics.json"] = False,
    json_: options.Json = False,
    dask: options.Dask = None,
    device: options.Device = "auto",
    quiet: options.Quiet = False,
) -> None:  # fmt: skip
    """Link the words of a file's translations, or score each head's links."""
    from transformer.measures.pharaoh import written

    if data is not None:
        _score(checkpoint, data, write, json_, device)
        return
    if write or json_:
        raise InputError(f"{'--write' if write else '--json'} needs --data")
    outputs = {"pharaoh": pharaoh, "subwords": subwords, "words": words}
    for output in filter(None, outputs.values()):
        check_place(output)
    place = _known(checkpoint, place)
    pairs: list[tuple[str, str | None]]
    if tgt is not None:
        if src is None:
            raise InputError("--tgt needs --src")
        pairs = [*read_parallel(src, tgt)]
    else:
        lines = read_lines(find_file(src)) if src else sys.stdin.read().splitlines()
        pairs = [(line, None) for line in lines]
    texts: dict[str, list[str]] = {name: [] for name in outputs}
    parts = options.in_parts(enumerate(pairs, 1))
    make = partial(linked, checkpoint.absolute(), device, place)
    with options.progress_bar(disable=quiet or None, unit=" sentences") as report:
        for results in options.spread(dask, make, parts):
            for one in results:
                texts["pharaoh"].append(written(one.links))
                texts["subwords"].append(written(one.token_links))
                texts["words"].append(json.dumps(one._asdict(), ensure_ascii=False))
            report(len(texts["pharaoh"]), len(pairs))
    for name, path in outputs.items():
        text = "".join(f"{line}\n" for line in texts[name])
        if path is not None:
            write_atomic(path, text.encode())
        elif name == "pharaoh":
            print(text, end="")


def _known(checkpoint: Path, place: Place) -> Place:
    """Return a checked place; a layer, head and row that are not given are the best known."""
    from transformer.evaluation.alignment import ALIGNMENT, best_aligner
    from transformer.evaluation.measure import read_metrics
    from transformer.measures.words import LinkUnits, Row
    from transformer.trace.records import CELL_MEASURES

    for name, allowed in (
        ("measure", CELL_MEASURES), ("row", (None, *get_args(Row))), ("units", get_args(LinkUnits)),
    ):  # fmt: skip
        if (value := getattr(place, name)) not in allowed:
            raise InputError(f"--{name} {value}; expected {', '.join(filter(None, allowed))}")
    layer, head, row = place.layer, place.head, place.row
    if layer is None and head is None and row is None:
        try:
            ref = options.of_kind(checkpoint, "checkpoint", "one_stack")
            table = read_metrics(ref.folder)[1][ALIGNMENT]
            layer, head, _ = best_aligner(table)
            row = min(get_args(Row), key=lambda row: table[row][layer][head])
            layer, head = layer + 1, head + 1
        except (ValueError, LookupError, TypeError):
            layer = head = row = None
    row = row or "predicting"
    where = f"layer {layer}" if layer else "all layers"
    where += f", head {head}" if head else ", all heads"
    print(f"links by {place.measure}: {where}, the {row} row", file=sys.stderr)
    return Place(measure=place.measure, layer=layer, head=head, row=row, units=place.units)


@lru_cache(maxsize=1)
def _opened(checkpoint: Path, device: str) -> Any:
    from transformer.models.catalogue import open_tracer

    return open_tracer(
        options.of_kind(checkpoint, "checkpoint", "one_stack", "huggingface"), device
    )


def linked(
    checkpoint: Path, device: str, place: Place,
    lines: Sequence[tuple[int, tuple[str, str | None]]],
) -> list[Linked]:  # fmt: skip
    """Return the links of numbered sentence pairs; a blank side has none.

    Raises: `InputError` naming a line that the model cannot read.
    """
    model, results = _opened(checkpoint, device), list[Linked]()
    for number, (source, target) in lines:
        blank = not source.strip() or (target is not None and not target.strip())
        try:
            results.append(
                Linked([], [], [], []) if blank else _linked(model, place, source, target)
            )
        except InputError as error:
            raise InputError(f"line {number}: {error}") from None
    return results


def _linked(model: Any, place: Place, source: str, target: str | None) -> Linked:
    from transformer.evaluation.alignment import measured_maps
    from transformer.measures.words import LinkUnits, Row, links, word_maps, words_of
    from transformer.trace.records import CellMeasure

    trace = model.trace(source, target, top_k=1)
    layer, head = (None if at is None else at - 1 for at in (place.layer, place.head))
    values = measured_maps(model, trace, cast(CellMeasure, place.measure), layer, head)
    row, units = cast(Row, place.row), cast(LinkUnits, place.units)
    found = words_of(trace, row, units)
    sources = [[trace.src_tokens[at] for at in word] for word in found.columns]
    written = [*trace.tgt_tokens[1:], trace.predicted_tokens[-1]]
    first = int(row == "reading")
    targets = [[written[at - first] for at in word] for word in found.rows]

    def of(units: LinkUnits) -> list[tuple[int, int]]:
        return sorted(links(word_maps(trace, row, values, units)), key=lambda link: link[::-1])

    return Linked(sources, targets, of(units), of("tokens"))


def _score(checkpoint: Path, data: Path, write: bool, json_: bool, device: str) -> None:
    """Score each head's word alignment against manual alignments."""
    from transformer.checkpoint.folder import METRICS
    from transformer.evaluation.alignment import ALIGNMENT, best_aligner, head_errors, read_gold
    from transformer.evaluation.measure import read_metrics
    from transformer.evaluation.records import stamped
    from transformer.models.catalogue import open_tracer
    from transformer.models.one_stack.tracer import StackModel
    from transformer.translator import Translator

    ref = options.of_kind(checkpoint, "checkpoint", "one_stack")
    if write and ref.updates is not None:
        raise ConfigError(f"{checkpoint}: --write needs the checkpoint itself, not a snapshot")
    recipe, metrics = read_metrics(ref.folder)
    aligned = read_gold(data, recipe.data.src)
    model = open_tracer(ref, device)
    if (
        not isinstance(model, Translator | StackModel)
        or (isinstance(model, StackModel) and model.config.task != "translate")
        or {recipe.data.src, recipe.data.tgt} != {"de", "en"}
    ):
        raise ConfigError(f"{checkpoint}: does not translate between German and English")
    with options.progress_bar(unit=" sentences") as show:
        errors = head_errors(model, aligned, show)
    weights, setting = weights_digest(checkpoint), "the given translation, followed"
    record = stamped(errors, weights, setting, "alignment-de-en", aligned.pairs)
    if write:
        text = json.dumps(metrics | {ALIGNMENT: record}, indent=2, ensure_ascii=False) + "\n"
        write_atomic(checkpoint / METRICS, text.encode())
    if json_:
        print(json.dumps(record))
        return
    print(f"{best_aligner(record)[2]}.")
    for row in ("predicting", "reading"):
        print(f"alignment error in the {row} row, %")
        for number, heads in enumerate(record[row], 1):
            print(f"  layer {number}: " + " ".join(f"{100 * error:5.1f}" for error in heads))
