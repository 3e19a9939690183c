"""Table 3 on screen: stored runs beside the paper's, and the command that runs more."""

from collections import Counter

import streamlit as st

from figures.labels import plain, signed
from figures.training import differences
from transformer.evaluation.ablation_summary import Line, Verdict, caveats, table
from transformer.evaluation.ablations import Results, shipped
from ui.core import url_state
from ui.core.layout import current_theme, draw_chart
from ui.core.widgets import choose_one
from ui.export.download import download_below
from ui.training.exhibits import AXES, ablations, changes_of
from ui.training.views import MEASURE, MEASURES

_VERDICTS: dict[Verdict, str] = {
    "same direction, significant": "go in the paper's direction",
    "other direction": "in the other direction",
    "no direction in the paper": "where the paper shows none",
    "too close to tell": "too close to tell",
    "not run": "not run",
}

_READ = {
    "nll": "Lower perplexity: the model is less surprised by the right word. **← better, worse →**",
    "bleu": "Higher BLEU: more like a person's translation. **← worse, better →**",
}


def draw_table3() -> None:
    """Draw the view."""
    url_state.show(MEASURE)
    results, measure = shipped(), url_state.get(MEASURE)
    lines = table(results)
    totals = Counter(line.figures[measure].verdict for line in lines[1:])
    counts = [f"{totals[verdict]} {text}" for verdict, text in _VERDICTS.items() if totals[verdict]]
    st.markdown(
        "Which parts of a Transformer matter? **Change one thing, train again, compare.** Here, "
        f"small models repeat the paper's table 3: of {len(lines) - 1} changes, "
        f"{', '.join(counts)}."
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        choose_one("Measure", MEASURE, MEASURES)
        st.caption(_READ[measure])
        st.space("stretch")
        download_below(st.container(width="content"), None, "table-3", ablations)
    changes = changes_of(lines, measure)
    better = "left" if measure == "nll" else "right"
    draw_chart(
        differences(changes, AXES[measure], current_theme()),
        f"{AXES[measure]}, {len(changes)} rows; further {better} is better. "
        + "; ".join(f"{change.name} {change.verdict}" for change in changes),
    )
    st.caption(
        "Each line is a 95% interval, from the variation between a row's runs and the unchanged "
        "model's (Welch's t). Verdicts are stricter: an interval that excludes zero can still be "
        f"too close to tell. {caveats(results, lines)} A direction says nothing about size: "
        "compare “here” with “paper”. One unit in the paper's last digit counts as no direction."
    )
    st.table(_cells(lines, measure), hide_index=True)
    _draw_source(results.comparable)


def _cells(lines: list[Line], measure: str) -> dict[str, list[str]]:
    name = "PPL" if measure == "nll" else "BLEU"
    columns = ("row", "change", "in symbols", "in the paper", "parameters", "runs", name,
               f"{name} in the paper", "against the unchanged model")  # fmt: skip
    rows = [
        (
            "" if row.group == "base" else f"({row.group})", row.words, row.change, row.theirs,
            *line.cells(measure)[:-1], _against(line, measure),
        )
        for line in lines
        for row in (line.variation,)
    ]  # fmt: skip
    return dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True))


def _against(line: Line, measure: str) -> str:
    """Return a row's difference here and in the paper, each better or worse, and the verdict."""
    figure = line.figures[measure]
    if line.variation.group == "base" or not line.seeds:
        return "" if line.seeds else _VERDICTS[figure.verdict]
    here, there = (
        f"{'▲ better' if (value < 0) == (measure == 'nll') else '▼ worse'} "
        f"({signed(value, 3 if measure == 'nll' else 1)})"
        for value in (figure.difference, figure.theirs)
    )
    return f"{here} here, {there} in the paper: {_VERDICTS[figure.verdict]}"


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
    with st.expander("Run more rows and seeds", icon=":material/terminal:"):
        st.code(
            "python -m transformer ablations --data DIR --out DIR [--rows heads-1 layers-1 ...] "
            "[--seeds 1 2 3 ...]",
            language="bash",
        )
        st.caption("On any machine; a stopped run resumes.")
