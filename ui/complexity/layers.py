"""The view of measured layers: table 1 beside our exponents, the chart, and a new measurement."""

from __future__ import annotations

import math

import numpy as np
import streamlit as st

from figures.layer_costs import cost_lines
from figures.markdown import code, plain
from figures.numbers import signed
from transformer.experiments.records import (
    COMPARED,
    Measurement,
    Row,
    crossings,
    exponents,
    large,
    shipped,
)
from transformer.measures.layer_costs import LAYER_COSTS, Estimate
from transformer.worker.job import Job
from ui.complexity import jobs
from ui.complexity.choice import MEASURED, QUANTITIES, LayersChoice
from ui.complexity.exhibits import AXES, layer_costs, lines_of
from ui.core import url_state
from ui.core.layout import current_theme, section, sized
from ui.core.widgets import choose_one
from ui.export.download import download_button
from ui.export.programs import called
from ui.work.results import once


def draw_layers() -> None:
    """Draw the view."""
    LayersChoice.show()
    own = jobs.measured()
    made = own if own is not None and url_state.get(LayersChoice.source) == "here" else shipped()
    if url_state.get(LayersChoice.width) not in made.widths:
        url_state.put(LayersChoice.width, made.widths[-1])
    d = url_state.get(LayersChoice.width) or made.widths[-1]
    _draw_chart(made, d, made is own)
    _draw_table(made, d)
    _draw_crossings(made)
    _draw_source(made)
    draw_measuring()


def _draw_chart(made: Measurement, d: int, own: bool) -> None:
    left, right, more = st.columns([4, 4, 2], vertical_alignment="bottom")
    quantity = choose_one("Quantity", LayersChoice.quantity, QUANTITIES, left)
    choose_one("Width", LayersChoice.width, {each: f"d = {each}" for each in made.widths}, right)
    with more.container(horizontal=True, horizontal_alignment="right"):
        download_button(
            lambda: called(layer_costs, d=d, measured=made.to_json() if own else ""),
            key="layers", name=f"layer-costs-{d}",
        )  # fmt: skip
    lines, theme = lines_of(made, quantity, d), current_theme()
    chart = once(
        ("layer costs", made.made.date, quantity, d, theme),
        lambda: cost_lines(made.lengths, lines, AXES[quantity][0], d, theme),
    )
    last = {name: line[-1] for name, line in lines.items() if math.isfinite(line[-1])}
    st.altair_chart(
        sized(chart), theme=None,
        alt=f"{QUANTITIES[quantity]} of {len(lines)} layers of width {d} by length; at "
        f"n = {made.lengths[-1]} from {min(last.values(), default=0):.3g} to "
        f"{max(last.values(), default=0):.3g} {AXES[quantity][0]}.",
    )  # fmt: skip


def _draw_table(made: Measurement, d: int) -> None:
    rows = once(("exponents", made.made.date, d), lambda: exponents(made, d))
    lengths = large(made)
    place = section(
        "Exponents",
        "A quantity that grows like $n^p$ is a straight line of slope $p$ above. Slopes are "
        f"least-squares fits to medians over n = {lengths[0]:,} to {lengths[-1]:,}, with the 95% "
        f"interval of a bootstrap over {made.rounds} rounds; in d at n = {made.lengths[-1]:,}.\n\n"
        "Table 1 counts $n^2 d$ for self-attention. A whole layer also projects to Q, K, V and "
        "back, which is $4nd^2$: with that, *counted* falls below 2.",
    )
    place.table(
        {
            "layer": [LAYER_COSTS[row.kind].name for row in rows],
            "table 1": [f"$O({LAYER_COSTS[row.kind].complexity})$" for row in rows],
            "time in n": [_interval(row.in_n) for row in rows],
            "counted": [_or_dash(row.expected) for row in rows],
            "memory in n": [_or_dash(row.memory) for row in rows],
            "time in d": [_interval(row.in_d) for row in rows],
        },
        hide_index=True,
    )
    place.caption(_fused_against_kept(made, rows, d))


def _fused_against_kept(made: Measurement, rows: list[Row], d: int) -> str:
    memory = {row.kind: row.memory for row in rows}
    n = max((n for n in made.lengths if made.cell("explicit", n, d).seconds), default=None)
    if n is None:
        return ""
    kept, fused = (made.cell(kind, n, d) for kind in ("explicit", "attention"))
    times = [1e3 * float(np.median(each.seconds)) for each in (fused, kept)]
    return (
        f"A fused kernel makes the map in pieces and keeps none: at n = {n:,} it holds "
        f"{fused.bytes / 1e6:,.0f} MB and takes {times[0]:,.0f} ms, where keeping the maps takes "
        f"{kept.bytes / 1e6:,.0f} MB and {times[1]:,.0f} ms. Its memory grows with exponent "
        f"{_or_dash(memory['attention'])} instead of {_or_dash(memory['explicit'])}."
    )


def _draw_crossings(made: Measurement) -> None:
    place = section(
        "Where self-attention gets slower",
        "By table 1 self-attention is faster than a recurrent layer as long as $n < d$. That "
        "compares operations. On a machine the recurrent layer also has to wait: its n steps come "
        "one after the other, and each is too small to fill a processor.",
    )
    columns: dict[str, list[str]] = {"self-attention": [], "recurrent": []}
    columns |= {f"d = {d}": [] for d in made.widths}
    for first, second in COMPARED:
        found = once(
            ("crossings", made.made.date, first, second),
            lambda: crossings(made, first, second),  # noqa: B023 - called at once
        )
        columns["self-attention"].append(LAYER_COSTS[first].name)
        columns["recurrent"].append(LAYER_COSTS[second].name)
        for d in made.widths:
            columns[f"d = {d}"].append(_length(found.get(d), made))
    place.table(columns, hide_index=True)
    place.caption("From this length n on, with the 95% interval.")


def _length(found: Estimate | None, made: Measurement) -> str:
    if found is None:
        return "–"

    def say(n: float) -> str:
        if math.isinf(n):
            return f"beyond {made.lengths[-1]:,}"
        return f"{n:,.0f}" if n else f"below {made.lengths[0]:,}"

    if found.low == found.high or not 0 < found.value < math.inf:
        return say(found.value)
    return f"{say(found.value)} ({say(found.low)} to {say(found.high)})"


def _interval(found: Estimate | None) -> str:
    if found is None:
        return "–"
    return f"{signed(found.value)} ({signed(found.low)} to {signed(found.high)})"


def _or_dash(value: float | None) -> str:
    return "–" if value is None else signed(value)


def _draw_source(made: Measurement) -> None:
    by = made.made
    st.caption(
        f"Measured {by.date[:10]} on {plain(by.processor)}: {by.threads} of {by.cores} cores, "
        f"PyTorch {plain(by.torch)}, float32, {made.rounds} rounds in one process, "
        + (f"load {by.load:g} before it; " if by.load is not None else "")
        + f"k = {made.kernel}, r = {made.window}, heads of width 64. Memory counts the bytes of "
        "tensors that a forward pass makes and holds at once, without weights and the kernels' own "
        f"scratch; layers that would hold more than {by.held / 2**20:,.0f} MiB are left out. "
        f"{code(by.command)}"
    )


def draw_measuring() -> None:
    """Draw the choice of a measurement, and a button to make one or its progress."""
    job = jobs.current()
    if jobs.measured() is not None:
        choose_one("Measurement", LayersChoice.source, MEASURED, label_visibility="visible")
    if job is not None and job.running:
        _draw_running(job)
        return
    if job is not None and job.phase == "failed":
        st.error(f"Measuring failed: {plain(job.error)}.", icon=":material/error:")
    why = jobs.refusal()
    st.button(
        "Measure again on this machine", icon=":material/timer:", key="measure_layers",
        on_click=_begin, disabled=why is not None,
        help="Takes two minutes on one core, and at most 1 GiB of memory. Other work on the "
        "machine makes the times longer." if why is None else f"{why} The command does the same.",
    )  # fmt: skip


def _begin() -> None:
    if jobs.refusal() is None:
        jobs.begin()
        url_state.put(LayersChoice.source, "here")


@st.fragment(run_every=1.0)
def _draw_running(job: Job[Measurement]) -> None:
    if not job.running:
        st.rerun()
    done, total = job.progress
    starting = total <= 0
    said = "Starting" if starting else f"Measured {done:,} of {total:,} layers"
    st.progress(0.0 if starting else min(1.0, done / total), said)
    if jobs.refusal() is None:
        st.button("Stop", icon=":material/stop:", on_click=job.stop, key="stop_measuring")
    st.caption("You can use other pages in the meantime.")
