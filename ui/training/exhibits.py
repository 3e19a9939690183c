"""The figure of table 3: what changes to the base model do, here and in the paper."""

from collections.abc import Sequence

import numpy as np

from figures.exhibit import Exhibit, Series
from figures.training import Change
from transformer.evaluation.ablation_summary import Line, table
from transformer.evaluation.ablations import GROUPS, shipped

#: Axis titles by measure.
AXES = {
    "nll": "log of perplexity against the unchanged model",
    "bleu": "BLEU against the unchanged model",
}


def ablations() -> Exhibit:
    """Return how the stored runs differ from the base model, as a figure."""
    results, arrays, parts = shipped().comparable, {}, []
    for measure, title in AXES.items():
        changes = changes_of(table(results), measure)
        ours = arrays[f"{measure}_ours"] = np.array([change.ours for change in changes])
        lines = {"this project": ours, "the paper": np.array([change.theirs for change in changes])}
        names = tuple(change.name for change in changes)
        parts.append(Series(title, names, lines, "", title, "bar"))
    return Exhibit(
        name="table-3",
        title="Variations on the base model (table 3)",
        caption=f"Mean differences over seeds; {len(results.runs)} runs on Multi30k in "
        f"{results.runs[0].precision}.",
        parts=tuple(parts),
        arrays=arrays,
    )


def changes_of(lines: Sequence[Line], measure: str) -> list[Change]:
    """Return how the other rows differ from the first row, the base model."""
    return [
        Change(
            line.variation.words,
            f"({line.variation.group})  {GROUPS[line.variation.group]}",
            figures.difference,
            figures.reach,
            figures.theirs,
            figures.verdict,
        )
        for line in lines[1:]
        for figures in (line.figures[measure],)
    ]
