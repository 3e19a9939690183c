"""Live curves of `python -m transformer train`, read from the runs' folders."""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import streamlit as st

from figures.labels import code, plain
from figures.training import curves, histories
from transformer.training.watching import WatchedRun, list_runs, read_run
from ui.core import url_state
from ui.core.examples import title_of
from ui.core.layout import current_theme, draw_chart, text_scale
from ui.core.view import CHECKPOINT, current_entries
from ui.core.widgets import filled
from ui.training.views import WATCHED, last
from ui.work.roots import folders_in

#: Environment variable: folders of runs, separated as in PATH.
VARIABLE = "HEADLIGHT_RUNS"

#: Seconds between updates of a live run; maximum number of runs drawn together.
_EVERY, _MOST = 3.0, 4

#: Chart title, and line kind and field in metrics.jsonl.
_CURVES = (
    ("training loss, nats per piece", "update", "nll"),
    ("validation loss, nats per piece", "epoch", "val_nll"),
    ("learning rate", "update", "lr"),
    ("target pieces per second", "update", "tokens_per_second"),
)

#: Words of titles, and what a narrow chart has for them.
_SHORT = {
    "English": "EN", "German": "DE", "French": "FR", "photo captions": "photos",
    ": fills gaps in English": "", ": continues English": "",
}  # fmt: skip


def draw_watch() -> None:
    """Draw the view."""
    url_state.show(WATCHED)
    roots = folders_in(VARIABLE, "runs")
    runs = list_runs(roots)
    if not runs:
        _draw_shipped()
        names = ", ".join(code(f"{root.name}/") for root in roots)
        with st.expander("Watch a run of your own", icon=":material/terminal:"):
            st.markdown(
                f"There are no runs in {names} yet. Start one in a terminal; this page draws its "
                f"log while it grows. Or set `{VARIABLE}` to a folder of runs and restart the app."
            )
            st.code(
                "python -m transformer train recipes/multi30k-en-de.toml --data DIR --download "
                "--out runs/multi30k",
                language="bash",
            )
        return
    st.markdown("The log of each run, while it grows. **Choose several to compare their recipes.**")
    selected = [name for name in url_state.get(WATCHED).split(",") if name in runs][:_MOST]
    chosen = st.multiselect(
        "Runs", list(runs), max_selections=_MOST, label_visibility="collapsed",
        placeholder="Choose a run", **filled(
            "watched_runs", selected or [next(iter(runs))],
            lambda names: url_state.put(WATCHED, ",".join(names)),
        ),
    )  # fmt: skip
    if chosen:
        folders = [runs[name] for name in chosen]
        live = any(read_run(folder).live for folder in folders)
        st.fragment(_draw, run_every=_EVERY if live else None)(folders)


def _draw_shipped() -> None:
    """Draw the losses of the installed models' training, the chosen model's in colour."""
    entries = {
        title_of(entry): entry for entry in current_entries()
        if entry.ok and entry.updates is None
        and any(math.isfinite(at.val_nll) for at in entry.history.snapshots)
    }  # fmt: skip
    lines = {
        title: [(at.updates, at.val_nll) for at in entry.history.snapshots]
        for title, entry in entries.items()
    }
    if lines:
        st.markdown(
            "**How the installed models learned.** Each line is a model's loss on sentences that "
            "it did not train on: lower is better. Most is learned in a few hundred updates. "
            "Compare shapes, not heights: letters and German are not equally hard to guess."
        )
        titles = {entry.name: title for title, entry in entries.items()}
        chosen = titles.get(url_state.get(CHECKPOINT), "")
        short = {name: re.sub("|".join(_SHORT), lambda at: _SHORT[at[0]], name) for name in lines}
        height = round(360 / text_scale())  # while presenting it is enlarged as its type
        theme, level = current_theme(), ("even guess: 8.99", math.log(8000))
        chart = histories(lines, short, chosen, "loss, nats per token", theme, height, level)
        alt = f"Loss of the installed models: {last(lines)}; {level[0]}"
        draw_chart(chart, alt, st.container(key="histories"))
        st.caption(
            "Dashed: an even guess over 8,000 tokens, ln 8,000 nats. An untrained translator does "
            "worse: it expects the token that it has just read."
        )


def _draw(folders: list[Path]) -> None:
    runs = [read_run(folder) for folder in folders]
    for run in runs:
        st.caption(f"**{plain(run.name)}** {_state(run)}")
    theme = current_theme()
    for row in (_CURVES[:2], _CURVES[2:]):
        for column, (title, kind, name) in zip(st.columns(2), row, strict=True):
            lines = {run.name: run.curve(kind, name) for run in runs}
            chart = curves(lines, title, theme, from_zero=name != "val_nll")
            draw_chart(chart, f"{title}: {last(lines)}", column, f"watch_{name}")
    _draw_settings(runs)


def _state(run: WatchedRun) -> str:
    if not run.lines:
        return "no log yet; the first line comes after 50 updates"
    last = run.lines[-1]
    parts = [f"update {last['update']:,}"]
    if not run.finished:
        epochs = run.setting("training", "epochs")
        most = f" of at most {epochs:,}" if isinstance(epochs, int) else ""
        parts.append(f"epoch {int(last.get('epoch', 0)) + 1:,}{most}")
    seconds = last.get("seconds")
    if isinstance(seconds, int | float):
        parts.append(f"{seconds / 3600:.1f} hours")
    if run.finished:
        parts.append("finished")
    elif run.live:
        parts.append(f"last line {run.age:.0f} s ago")
    else:
        parts.append("stopped; continue it with `--resume`")
    return "; ".join(parts)


def _draw_settings(runs: list[WatchedRun]) -> None:
    names: dict[tuple[str, str], None] = {}
    for run in runs:
        for table, values in run.recipe.items():
            if isinstance(values, Mapping):
                names |= dict.fromkeys((table, name) for name in values)
    rows: list[tuple[str, list[Any]]] = []
    for table, name in names:
        values = [run.setting(table, name) for run in runs]
        if len(runs) == 1 or any(value != values[0] for value in values):
            rows.append((f"{table}.{name}", values))
    title = "Settings" if len(runs) == 1 else "Settings that differ"
    with st.expander(title, icon=":material/tune:", expanded=len(runs) > 1):
        if not rows:
            st.caption("None.")
            return
        columns = {"setting": [code(name) for name, _ in rows]}
        for index, run in enumerate(runs):
            columns[plain(run.name)] = [_as_text(values[index]) for _, values in rows]
        st.table(columns, hide_index=True)


def _as_text(value: Any) -> str:
    if value is None:
        return "–"
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return plain(text if len(text) <= 80 else f"{text[:79]}…")
