"""The figure of table 3: what each change does to the base model, here and in the paper."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from figures.exhibit import Exhibit, Series
from figures.training import Change
from transformer.evaluation.ablation_summary import Line, table
from transformer.evaluation.ablations import shipped

#: Title of the figure's axis by measure.
AXES = {"nll": "ln perplexity, difference to base", "bleu": "BLEU, difference to base"}


def ablations() -> Exhibit:
    """Return the differences of the stored runs to the base model, as a figure."""
    results, arrays, parts = shipped().comparable, {}, []
    for measure, title in AXES.items():
        changes = changes_of(table(results), measure)
        ours = arrays[f"{measure}_ours"] = np.array([each.ours for each in changes])
        lines = {"this project": ours, "the paper": np.array([each.theirs for each in changes])}
        names = tuple(each.name for each in changes)
        parts.append(Series(title, names, lines, "", title, "bar"))
    return Exhibit(
        name="table-3",
        title="Variations on the base model (table 3)",
        caption=f"Differences of means over seeds, {len(results.runs)} runs on Multi30k in "
        f"{results.runs[0].precision}.",
        parts=tuple(parts),
        arrays=arrays,
    )


def changes_of(lines: Sequence[Line], measure: str) -> list[Change]:
    """Return all rows but the first, the base, as differences to it."""
    return [
        Change(
            f"{each.variation.group}  {each.variation.change}",
            found.difference, found.reach, found.theirs, found.verdict,
        )
        for each in lines[1:]
        for found in (each.figures[measure],)
    ]  # fmt: skip
