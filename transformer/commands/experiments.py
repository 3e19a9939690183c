"""`complexity` measures table 1 of the paper, `ablations` repeats table 3."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from transformer.commands.options import Device, Json, Quiet, progress_bar

if TYPE_CHECKING:
    from transformer.evaluation.ablations import Results


def ablations(
    *,
    data: Annotated[Path | None, "DIR", "folder of the text; without it, no training"] = None,
    out: Annotated[Path | None, "DIR", "folder of the runs, which are resumed there"] = None,
    rows: Annotated[Sequence[str], "ROW", "such as heads-1 layers-1; default: all, in order"] = (),
    seeds: Annotated[Sequence[int], "N", "of the runs of a row"] = (1, 2, 3),
    table: Annotated[Path | None, "FILE", "file of the results; default: the project's own"] = None,
    compile_: Annotated[bool, "train with torch.compile"] = False,
    device: Device = "auto",
    quiet: Quiet = False,
    json_: Json = False,
) -> None:
    """Repeat the rows of table 3 on Multi30k, and compare with the paper."""
    from transformer.errors import InputError
    from transformer.evaluation.ablations import BASE, RUN_ORDER, SHIPPED, Results, variation
    from transformer.files.atomic import check_place

    if (data is None) != (out is None):
        raise InputError("--data and --out belong together: text to train on, and a place for runs")
    asked, file = [variation(name) for name in rows or RUN_ORDER], table or SHIPPED
    if data is None or out is None:
        if not file.exists():
            raise InputError(f"{file}: no such file")
        results = Results.from_json(file.read_text("utf-8"))
    else:
        from transformer.evaluation.ablation_runs import gather, make, missing, precision

        check_place(file)
        start = {**BASE, "training": {**BASE["training"], "compile": compile_}}
        results = gather(out, file)
        left = missing(results, asked, seeds, precision(device, start))
        for index, (row, seed) in enumerate(left, 1):
            print(f"{index} of {len(left)}: {row.name}, seed {seed}", file=sys.stderr, flush=True)
            with progress_bar(disable=quiet, unit=" sentences") as report:
                make(
                    row, seed, data, out, start=start, device=device, show_progress=not quiet,
                    report=report,
                )  # fmt: skip
            results = gather(out, file)
    print(results.to_json() if json_ else ablation_table(results), end="")


def ablation_table(results: Results) -> str:
    """Return table 3 as text: our figures, the paper's, and the directions of both."""
    from transformer.evaluation.ablation_summary import caveats, table

    rows, found = table(results), ""
    for measure, name in (("nll", "PPL"), ("bleu", "BLEU")):
        titles = ["parameters", "runs", name, "paper", f"{'ln ' * (name == 'PPL')}{name} - base"]
        texts = [(each.variation.group, each.variation.name, each.cells(measure)) for each in rows]
        for group, row, cells in [("", "row", titles), *texts]:
            parameters, runs, ours, theirs, said = cells
            start = f"{group if group != 'base' else '':3}{row:20}{parameters:>10}{runs:>6}"
            found += f"{start}{ours:>13}{theirs:>7}  {said}".rstrip() + "\n"
        found += "\n"
    return f"{found}{caveats(results, rows)}\n"


if TYPE_CHECKING:
    from transformer.evaluation.complexity_records import Measurement


def complexity(
    *,
    quick: Annotated[bool, "small shapes, a few seconds"] = False,
    lengths: Annotated[Sequence[int] | None, "N", "default: 32 64 ... 4096"] = None,
    widths: Annotated[Sequence[int] | None, "D", "default: 128 256 512"] = None,
    threads: Annotated[int | None, "N", "threads of PyTorch; default: 1"] = None,
    seconds: Annotated[
        float | None, "S", "time for all rounds, of which there are 5 to 15; default: 100"
    ] = None,
    device: Annotated[str | None, "auto, cpu or cuda; default: cpu"] = None,
    memory: Annotated[
        int | None, "MIB", "leave out layers whose tensors would hold more; default: 1024"
    ] = None,
    json_: Annotated[bool, "print the measurement as JSON"] = False,
    out: Annotated[Path | None, "FILE", "write it there too, as JSON; not under load"] = None,
) -> None:
    """Measure time and memory of the layers of table 1 on this machine."""
    from transformer.errors import InputError
    from transformer.evaluation.complexity import QUICK, Plan, measure
    from transformer.files.atomic import check_place, write_atomic

    options = {
        "lengths": lengths, "widths": widths, "threads": threads, "seconds": seconds,
        "device": device, "memory": memory,
    }  # fmt: skip
    given = {name: value for name, value in options.items() if value is not None}
    words = []
    for name, value in given.items():
        each = value if isinstance(value, list) else [value]
        words += [f"--{name}", *(f"{one:g}" if name == "seconds" else str(one) for one in each)]
    changes: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in given.items()
    }
    if memory is not None:
        changes["held"] = changes.pop("memory") * 2**20
    start = QUICK if quick else Plan()
    plan = replace(start, **changes, command=" ".join([start.command, *words]))
    if out is not None:
        check_place(out)
    print(
        f"one layer at a time, of at most {plan.most_held / 2**20:,.0f} MiB of tensors",
        file=sys.stderr,
    )
    with progress_bar(delay=0, unit=" layers") as report:
        made = measure(plan, report)
    print(made.to_json() if json_ else exponent_table(made), end="")
    if out is not None:
        if made.refusal:
            raise InputError(f"{out}: not written, {made.refusal}")
        write_atomic(out, made.to_json().encode())


def exponent_table(made: Measurement) -> str:
    """Return the exponents and crossings of a measurement as text."""
    from transformer.evaluation.complexity_records import COMPARED, crossings, exponents
    from transformer.measures.layer_costs import LAYER_COSTS

    lines = [
        f"{made.made.said}, PyTorch {made.made.torch}, {made.rounds} rounds",
        f"{'exponent of time':30}{'in n (d ' + str(made.widths[-1]) + ')':>26}{'over n':>14}"
        f"{'in d (n ' + str(made.lengths[-1]) + ')':>26}{'over d':>14}",
    ]
    for row in exponents(made, made.widths[-1]):
        cells = (
            f"{'-':>40}"
            if fit is None
            else f"{f'{fit.value:.2f} ({fit.low:.2f} to {fit.high:.2f})':>26}"
            f"{f'{over[0]} to {over[-1]}':>14}"
            for fit, over in ((row.in_n, row.lengths), (row.in_d, row.widths))
        )
        lines.append(f"{LAYER_COSTS[row.kind].name:30}{''.join(cells)}")
    lines.append(f"here, at a load of {made.made.load:g}, attention is slower from n =")
    for first, second in COMPARED:
        for d, found in crossings(made, first, second).items():
            names = f"{LAYER_COSTS[first].name} against {LAYER_COSTS[second].name}"
            lines.append(
                f"  {names}, d {d}: {found.value:.0f} ({found.low:.0f} to {found.high:.0f})"
            )
    return "\n".join(lines) + "\n"
