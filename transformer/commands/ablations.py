"""`ablations`: table 3 of the paper, repeated."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    print(results.to_json() if json_ else text(results), end="")


def text(results: Results) -> str:
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
