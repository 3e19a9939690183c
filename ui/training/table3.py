"""Table 3 on screen: stored runs beside the paper's, and the command that runs more."""

from __future__ import annotations

from collections import Counter

import streamlit as st

from figures.labels import plain
from figures.training import differences
from transformer.evaluation.ablation_summary import Line, Verdict, caveats, table
from transformer.evaluation.ablations import Results, shipped
from ui.core import url_state
from ui.core.layout import current_theme, draw_chart
from ui.core.widgets import choose_one
from ui.export.download import download_below
from ui.training.choice import MEASURE, MEASURES
from ui.training.exhibits import AXES, ablations, changes_of

_VERDICTS: dict[Verdict, str] = {
    "same direction, significant": "in the paper's direction",
    "other direction": "in the other direction",
    "no direction in the paper": "where the paper shows none",
    "too close to tell": "too close to tell",
    "not run": "not run",
}


def draw_table3() -> None:
    """Draw the view."""
    url_state.show(MEASURE)
    results, measure = shipped(), url_state.get(MEASURE)
    lines = table(results)
    totals = Counter(line.figures[measure].verdict for line in lines[1:])
    counts = [f"{totals[verdict]} {text}" for verdict, text in _VERDICTS.items() if totals[verdict]]
    st.markdown(
        "Section 6.2 asks which parts of the architecture matter: **change one thing, train again, "
        "compare.** Here, each row is a model a quarter as wide and half as deep as the paper's, "
        f"trained on photo captions (Multi30k). Of {len(lines) - 1} changes: {', '.join(counts)}."
    )
    left, more = st.columns([8, 2], vertical_alignment="bottom")
    choose_one("Measure", MEASURE, MEASURES, left)
    download_below(more, None, "table-3", ablations)
    changes = changes_of(lines, measure)
    better = "left" if measure == "nll" else "right"
    draw_chart(
        differences(changes, AXES[measure], current_theme()),
        f"{AXES[measure]}, {len(changes)} rows; further {better} is better. "
        + "; ".join(f"{change.name} {change.verdict}" for change in changes),
    )
    st.caption(
        f"Further {better} is better. Each line is a 95% interval, from the variation between "
        "a row's runs and base's (Welch's t). Verdicts are stricter: an interval that excludes "
        f"zero can still be too close to tell. {caveats(results, lines)} A direction says nothing "
        "about size: compare “here” with “there”. One unit in the paper's last digit counts as no "
        "direction."
    )
    st.table(_cells(lines, measure), hide_index=True)
    _draw_source(results.comparable)


def _cells(lines: list[Line], measure: str) -> dict[str, list[str]]:
    name = "PPL" if measure == "nll" else "BLEU"
    columns = ("row", "change", "in the paper", "parameters", "runs", name, f"{name} in the paper",
               AXES[measure])  # fmt: skip
    rows = [
        ("" if row.group == "base" else row.group, row.change, row.theirs, *line.cells(measure))
        for line in lines
        for row in (line.variation,)
    ]
    return dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True))


def _draw_source(results: Results) -> None:
    if runs := results.runs:
        settings = runs[0].recipe["training"]
        hours = sum(run.hours for run in runs)
        st.caption(
            f"{len(runs)} runs in {runs[0].precision}, each with {runs[0].updates:,} updates and "
            f"{settings['batch_tokens']:,} tokens per update; {hours:.1f} hours in total on "
            f"{plain(', '.join(dict.fromkeys(run.hardware for run in runs)))}. Perplexity is per "
            f"piece, with a shared vocabulary of {runs[0].pieces:,} pieces, on the Multi30k "
            "validation set; BLEU is cased sacreBLEU on the same set, with beam size 4 and "
            "α = 0.6. The paper trained for 100,000 updates of 25,000 tokens on WMT 2014 and "
            "evaluated on newstest2013, so compare differences, not absolute values."
        )
    st.caption("Run more rows and seeds on any machine; a stopped run resumes:")
    st.code(
        "python -m transformer ablations --data DIR --out DIR [--rows heads-1 layers-1 ...] "
        "[--seeds 1 2 3 ...]",
        language="bash",
    )
