"""Experiments: `complexity` measures the paper's table 1, `ablations` repeats table 3, and `study`
measures over a corpus what a model's heads do.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from transformer.commands.options import Dask, Device, Json, Quiet, of_kind, progress_bar, spread
from transformer.edits.language import parse_edits, text_of
from transformer.files.folders import check_place, write_atomic
from transformer.measures.layer_costs import LAYER_COSTS
from transformer.types import InputError

if TYPE_CHECKING:
    from transformer.evaluation.ablations import Results
    from transformer.evaluation.complexity_records import Measurement


def ablations(
    *, data: Annotated[Path | None, "DIR", "folder of the text; without it, no training"] = None,
    out: Annotated[Path | None, "DIR", "folder of the runs, to be resumed there"] = None,
    rows: Annotated[Sequence[str], "ROW", "such as heads-1 layers-1; default: all, in order"] = (),
    seeds: Annotated[Sequence[int], "N", "seeds for the runs of a row"] = (1, 2, 3),
    table: Annotated[Path | None, "FILE", "results file; default: the project's own"] = None,
    compile_: Annotated[bool, "train with torch.compile"] = False, device: Device = "auto",
    quiet: Quiet = False, json_: Json = False,
) -> None:  # fmt: skip
    """Repeat rows of table 3 on Multi30k and compare them with the paper."""
    from transformer.evaluation.ablations import BASE, RUN_ORDER, SHIPPED, Results, variation

    if (data is None) != (out is None):
        raise InputError("--data and --out belong together: text to train on and a place for runs")
    variations, file = [variation(name) for name in rows or RUN_ORDER], table or SHIPPED
    if data is None or out is None:
        if not file.exists():
            raise InputError(f"{file}: no such file")
        results = Results.from_json(file.read_text("utf-8"))
    else:
        from transformer.evaluation.ablation_runs import gather, make, missing, precision

        check_place(file)
        start = {**BASE, "training": {**BASE["training"], "compile": compile_}}
        results = gather(out, file)
        left = missing(results, variations, seeds, precision(device, start))
        for index, (row, seed) in enumerate(left, 1):
            print(f"{index} of {len(left)}: {row.name}, seed {seed}", file=sys.stderr, flush=True)
            with progress_bar(disable=quiet, unit=" sentences") as report:
                make(
                    row, seed, data, out, start=start, device=device, show_progress=not quiet,
                    report=report,
                )  # fmt: skip
            results = gather(out, file)
    print(results.to_json() if json_ else ablation_table(results), end="")


def ablation_table(results: "Results") -> str:
    """Return table 3 as text: our figures, the paper's, and the directions of both."""
    from transformer.evaluation.ablation_summary import caveats, table

    rows, text = table(results), ""
    for measure, name in (("nll", "PPL"), ("bleu", "BLEU")):
        titles = ["parameters", "runs", name, "paper", f"{'ln ' * (name == 'PPL')}{name} - base"]
        lines = [(row.variation.group, row.variation.name, row.cells(measure)) for row in rows]
        for group, title, cells in [("", "row", titles), *lines]:
            parameters, runs, ours, theirs, direction = cells
            start = f"{group if group != 'base' else '':3}{title:20}{parameters:>10}{runs:>6}"
            text += f"{start}{ours:>13}{theirs:>7}  {direction}".rstrip() + "\n"
        text += "\n"
    return f"{text}{caveats(results, rows)}\n"


def complexity(
    *,
    quick: Annotated[bool, "small shapes, a few seconds"] = False,
    lengths: Annotated[Sequence[int] | None, "N", "default: 32 64 ... 4096"] = None,
    widths: Annotated[Sequence[int] | None, "D", "default: 128 256 512"] = None,
    threads: Annotated[int | None, "N", "PyTorch threads; default: 1"] = None,
    seconds: Annotated[
        float | None, "S", "time for all 5 to 15 rounds; default: 100"
    ] = None,
    device: Annotated[str | None, "auto, cpu or cuda; default: cpu"] = None,
    memory: Annotated[
        int | None, "MIB", "leave out layers whose tensors would take more; default: 1024"
    ] = None,
    json_: Annotated[bool, "print the measurement as JSON"] = False,
    out: Annotated[Path | None, "FILE", "also write it here as JSON, unless under load"] = None,
) -> None:  # fmt: skip
    """Measure time and memory of the layers of table 1 on this machine."""
    from transformer.evaluation.complexity import QUICK, Plan, measure

    options = {
        "lengths": lengths, "widths": widths, "threads": threads, "seconds": seconds,
        "device": device, "memory": memory,
    }  # fmt: skip
    chosen = {name: value for name, value in options.items() if value is not None}
    words = []
    for name, value in chosen.items():
        values = value if isinstance(value, list) else [value]
        words += [f"--{name}", *(f"{x:g}" if name == "seconds" else str(x) for x in values)]
    changes: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in chosen.items()
    }
    if memory is not None:
        changes["held"] = changes.pop("memory") * 2**20
    start = QUICK if quick else Plan()
    plan = replace(start, **changes, command=" ".join([start.command, *words]))
    if out is not None:
        check_place(out)
    most = f"{plan.most_held / 2**20:,.0f} MiB"
    print(f"one layer at a time, of at most {most} of tensors", file=sys.stderr)
    with progress_bar(delay=0, unit=" layers") as report:
        result = measure(plan, report)
    print(result.to_json() if json_ else exponent_table(result), end="")
    if out is not None:
        if result.refusal:
            raise InputError(f"{out}: not written, {result.refusal}")
        write_atomic(out, result.to_json().encode())


def exponent_table(result: "Measurement") -> str:
    """Return a measurement's exponents and crossings as text."""
    from transformer.evaluation.complexity_records import COMPARED, crossings, exponents

    lines = [
        f"{result.made.said}, PyTorch {result.made.torch}, {result.rounds} rounds",
        f"{'exponent of time':30}{f'in n (d {result.widths[-1]})':>26}{'over n':>14}"
        f"{f'in d (n {result.lengths[-1]})':>26}{'over d':>14}",
    ]
    for row in exponents(result, result.widths[-1]):
        line = f"{LAYER_COSTS[row.kind].name:30}"
        for fit, over in ((row.in_n, row.lengths), (row.in_d, row.widths)):
            if fit is None:
                line += f"{'-':>40}"
                continue
            line += f"{f'{fit.value:.2f} ({fit.low:.2f} to {fit.high:.2f})':>26}"
            line += f"{f'{over[0]} to {over[-1]}':>14}"
        lines.append(line)
    lines.append(f"here, at a load of {result.made.load:g}, attention is slower from n =")
    for first, second in COMPARED:
        names = f"{LAYER_COSTS[first].name} against {LAYER_COSTS[second].name}"
        for d, fit in crossings(result, first, second).items():
            lines.append(f"  {names}, d {d}: {fit.value:.0f} ({fit.low:.0f} to {fit.high:.0f})")
    return "\n".join(lines) + "\n"


def study(
    checkpoints: Annotated[Sequence[Path], "CHECKPOINT", "models, or snapshots as NAME@UPDATES"],
    *,
    corpus: Annotated[
        Path | None, "PATH",
        "CoNLL-U folder or file, or plain text with one sentence per line; default: data/gum",
    ] = None,
    out: Annotated[
        Path | None, "DIR", "folder of the study; default: one in the checkpoint's folder"
    ] = None,
    edit: Annotated[
        str | None, "EDITS", "first take parts out of the models: “off cross.3.5; no positions”"
    ] = None,
    sentences: Annotated[int | None, "N", "read only N, evenly over the corpus"] = None,
    examples: Annotated[
        int | None, "N", "keep N example sentences, evenly over the corpus; default: all"
    ] = None,
    second: Annotated[
        Path | None,
        "PATH",
        "a corpus on which roles must hold again; default: typed sentences of the model's language",
    ] = None,
    page: Annotated[
        Path | None, "FILE", "instead: write a Markdown report of existing studies"
    ] = None,
    dask: Dask = None,
    device: Device = "cpu",
    quiet: Quiet = False,
) -> None:  # fmt: skip
    """Measure what each attention head does, resuming a stopped study."""
    from transformer.study.page import markdown, section
    from transformer.study.records import FILE, Study, studies_of

    edits = text_of(parse_edits(edit or ""))
    refs = [
        of_kind(path, "checkpoint", "one_stack", "huggingface").edited(edits)
        for path in checkpoints
    ]
    for name, value in (("sentences", sentences), ("examples", examples)):
        if value is not None and value < (name == "sentences"):
            raise InputError(f"--{name} {value}; expected a number of sentences")
    if page is not None:
        check_place(page)
        studies = [Study.load(path) for ref in refs for path in studies_of(ref)]
        if not studies:
            raise InputError("there are no studies of these models yet; leave out --page")
        write_atomic(page, markdown(studies).encode())
        print(page)
        return
    if out is not None and len(refs) > 1:
        raise InputError("--out is the folder of one study; give one model")
    from transformer.study.importance import whole_study

    for ref in refs:
        started = time.time_ns()
        with progress_bar(disable=quiet or None, unit=" sentences") as report:
            folder = whole_study(
                ref, corpus, report, out, device=device, sentences=sentences, examples=examples,
                second=second, spread=partial(spread, dask) if dask else None,
            )  # fmt: skip
        if (folder / FILE).stat().st_mtime_ns < started:
            print(f"{folder}: finished before, with the same model, corpus and settings")
        else:
            print(folder)
            print(section(Study.load(folder)), end="")
