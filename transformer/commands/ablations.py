"""`ablations`: table 3 of the paper, repeated."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from transformer.commands.options import Device, Json, Quiet, progress_bar

if TYPE_CHECKING:
    from transformer.experiments.ablation_summary import Figure
    from transformer.experiments.ablations import Results


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
    from transformer.experiments.ablations import BASE, RUN_ORDER, SHIPPED, Results, variation
    from transformer.files.atomic import check_place

    if (data is None) != (out is None):
        raise InputError("--data and --out belong together: text to train on, and a place for runs")
    asked, file = [variation(name) for name in rows or RUN_ORDER], table or SHIPPED
    if data is None or out is None:
        if not file.exists():
            raise InputError(f"{file}: no such file")
        results = Results.from_json(file.read_text("utf-8"))
    else:
        from transformer.experiments.ablation_runs import gather, make, missing

        check_place(file)
        start = {**BASE, "training": {**BASE["training"], "compile": compile_}}
        results = gather(out, file)
        left = missing(results, asked, seeds)
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
    """Return table 3 as text: our figures, the paper's, and whether they agree."""
    from transformer.experiments.ablation_summary import table

    lines = [
        f"{'':3}{'row':20}{'seeds':>6}{'parameters':>12}{'PPL':>8}{'paper':>7}  "
        f"{'ln PPL - base':22}{'BLEU':>13}{'paper':>7}  BLEU - base"
    ]
    for each in table(results):
        row, group = each.variation, each.variation.group
        start = f"{'' if group == 'base' else group:3}{row.name:20}{len(each.seeds):>6}"
        theirs = f"{row.published.perplexity:>7.2f}", f"{row.published.bleu:>7.1f}"
        if each.nll is None or each.bleu is None or each.parameters is None:
            lines.append(f"{start}{'':>12}{'':>8}{theirs[0]}  {'not run':22}{'':>13}{theirs[1]}")
        else:
            lines.append(
                f"{start}{each.parameters:>12,}{math.exp(each.nll.mean):>8.2f}{theirs[0]}  "
                f"{_difference(each.nll, 3, group):22}"
                f"{each.bleu.mean:>7.1f}{_spread(each.bleu)}{theirs[1]}  "
                f"{_difference(each.bleu, 1, group)}"
            )
    return "\n".join(lines) + "\n"


def _spread(figure: Figure) -> str:
    return f" ± {figure.spread:<3.1f}" if math.isfinite(figure.spread) else " " * 6


def _difference(figure: Figure, digits: int, group: str) -> str:
    if group == "base":
        return ""
    return f"{figure.difference:+.{digits}f} {figure.verdict}"
