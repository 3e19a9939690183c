"""Table 3 on screen: the stored runs beside the paper's rows, and the command that adds to them."""

from __future__ import annotations

import math

import streamlit as st

from figures.labels import plain, signed
from figures.training import differences
from transformer.experiments.ablation_summary import Figure, Line, table
from transformer.experiments.ablations import Results, shipped
from ui.core import url_state
from ui.core.layout import current_theme, draw_chart
from ui.core.widgets import choose_one
from ui.export.download import download_below
from ui.training.choice import MEASURE, MEASURES
from ui.training.exhibits import AXES, ablations, changes_of, figure_of


def draw_table3() -> None:
    """Draw the view."""
    url_state.show(MEASURE)
    results, measure = shipped(), url_state.get(MEASURE)
    lines = table(results)
    st.markdown(
        "Section 6.2 asks what matters in the architecture: **change one thing, train again, "
        "compare.** Here each row is trained on Multi30k in a model a quarter as wide and half as "
        f"deep. {_count(lines, measure)}"
    )
    left, more = st.columns([8, 2], vertical_alignment="bottom")
    choose_one("Measure", MEASURE, MEASURES, left)
    download_below(more, None, "table-3", ablations)
    changes = changes_of(lines, measure)
    better = "left" if measure == "nll" else "right"
    draw_chart(
        differences(changes, AXES[measure], current_theme()),
        f"{AXES[measure]} of {len(changes)} rows; {better} is better. "
        + "; ".join(f"{each.name} {each.verdict}" for each in changes),
    )
    st.caption(
        f"Further {better} is better. Lines are 95% intervals, from the spread over seeds pooled "
        "over all rows. A row “agrees” where its line is clear of zero, in the paper's direction, "
        "or where it is not and the paper's difference is nil."
    )
    st.table(_cells(lines), hide_index=True)
    _draw_source(results)


def _count(lines: list[Line], measure: str) -> str:
    compared = [figure for each in lines[1:] if (figure := figure_of(each, measure)) is not None]
    said = {
        verdict: sum(each.verdict == verdict for each in compared)
        for verdict in ("agrees", "differs", "too close to tell")
    }
    left = len(lines) - 1 - len(compared)
    few = sum(0 < len(each.seeds) < 3 for each in lines[1:])
    if not compared:
        return "No row has been run yet."
    return (
        f"Of {len(lines) - 1} changes, as in the paper: {said['agrees']}; otherwise: "
        f"{said['differs']}; too close to tell: {said['too close to tell']}; not run: {left}."
        + (f" Trained with one or two seeds so far: {few}." if few else "")
    )


def _cells(lines: list[Line]) -> dict[str, list[str]]:
    columns: dict[str, list[str]] = {
        "": [], "change": [], "in the paper": [], "parameters": [], "PPL": [], "paper's PPL": [],
        "BLEU": [], "paper's BLEU": [], "seeds": [], "PPL with the paper": [],
        "BLEU with the paper": [],
    }  # fmt: skip
    for each in lines:
        row = each.variation
        cells = [
            "" if row.group == "base" else row.group, row.change, row.theirs,
            "–" if each.parameters is None else f"{each.parameters / 1e6:.2f}M",
            "–" if each.nll is None else f"{math.exp(each.nll.mean):.2f}",
            f"{row.published.perplexity:.2f}",
            "–" if each.bleu is None else _with_spread(each.bleu),
            f"{row.published.bleu:.1f}",
            str(len(each.seeds)),
            _verdict(each, each.nll), _verdict(each, each.bleu),
        ]  # fmt: skip
        for column, cell in zip(columns.values(), cells, strict=True):
            column.append(cell)
    return columns


def _with_spread(figure: Figure) -> str:
    spread = f" ± {figure.spread:.1f}" if math.isfinite(figure.spread) else ""
    return f"{figure.mean:.1f}{spread}"


def _verdict(line: Line, figure: Figure | None) -> str:
    if line.variation.group == "base":
        return ""
    if figure is None:
        return "not run"
    return f"{figure.verdict} ({signed(figure.difference)})"


def _draw_source(results: Results) -> None:
    runs = results.runs
    if runs:
        settings = runs[0].recipe["training"]
        hours = sum(each.hours for each in runs)
        st.caption(
            f"{len(runs)} runs of {runs[0].updates:,} updates of {settings['batch_tokens']:,} "
            f"tokens, {hours:.1f} hours on "
            f"{plain(', '.join(dict.fromkeys(each.hardware for each in runs)))}. Perplexity is per "
            f"piece of one vocabulary of {runs[0].pieces:,}, on Multi30k's validation text; BLEU "
            "is cased sacreBLEU on the same text, beam 4 and α = 0.6. The paper trained 100,000 "
            "updates of 25,000 tokens on WMT 2014 and measured on newstest2013, so differences "
            "compare, values do not."
        )
    st.caption("More rows and seeds, on any machine; a run that was stopped goes on where it was:")
    st.code(
        "python -m transformer ablations --data DIR --out DIR [--rows heads-1 layers-1 ...] "
        "[--seeds 1 2 3 ...]",
        language="bash",
    )
