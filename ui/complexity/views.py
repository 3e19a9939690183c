"""The views of Cost: measured layers, a signal's path, and the maps of a long text."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import numpy as np
import streamlit as st

from figures.charts import bars
from figures.labels import code, count, plain, signed
from figures.layer_costs import cost_lines, path_picture
from transformer.config import ModelConfig
from transformer.evaluation.complexity_maps import map_bytes, time_maps
from transformer.evaluation.complexity_records import (
    COMPARED,
    Measurement,
    crossings,
    exponents,
    shipped,
)
from transformer.measures.layer_costs import (
    LAYER_COSTS,
    PATHS,
    Estimate,
    LayerKind,
    PathKind,
    counted_crossing,
    path_length,
)
from transformer.types import Reals
from transformer.worker.job import Job
from ui.complexity.choice import (
    KINDS,
    LENGTHS,
    MEASURED,
    QUANTITIES,
    LayersChoice,
    PathChoice,
    begin_measuring,
    current_job,
    ends,
    last_measurement,
    lengths_of,
    size_of,
)
from ui.complexity.exhibits import AXES, bytes_of_maps, layer_costs, lines_of, path_lengths
from ui.core import public, url_state
from ui.core.layout import current_theme, draw_chart, section
from ui.core.view import View
from ui.core.widgets import bound, choose_one
from ui.export.download import download_below
from ui.work.desk import drawn, get_translator, run
from ui.work.results import CACHE, once

_WHAT = "Measuring in the app"
_OWN, _ASKED = "headlight_measuring", "headlight_time_maps"


def draw_layers() -> None:
    """Draw the view."""
    LayersChoice.show()
    own = last_measurement()
    timings = (url_state.get(LayersChoice.source) == "here" and own) or shipped()
    d = url_state.get(LayersChoice.width)
    d = d if d in timings.widths else timings.widths[-1]
    lengths = ", ".join(
        f"{estimate.value / width:.1f}d (d = {width})"
        for width, estimate in _crossings(timings, *COMPARED[0]).items()
        if 0 < estimate.value < math.inf
    )
    with st.container(key="after_lead"):
        st.markdown(
            "Self-attention compares every token with every other: **twice the text, four times "
            "the work**, $n^2 d$."
        )
    _draw_costs(timings, d, timings is own)
    st.markdown(
        "A recurrent layer works token by token: twice the text, twice the work, $n d^2$. "
        "Attention is cheaper while the text is shorter than the vectors are wide: **the counts "
        f"cross at $n = d$**. Measured times "
        f"{f'cross at {lengths}' if lengths else 'do not cross at these lengths'}."
    )
    with st.expander("How fast each layer grows, with intervals"):
        _draw_table(timings, d)
    with st.expander("Where self-attention takes more, with intervals"):
        _draw_crossings(timings)
    with st.expander("How it was measured, and measure it here"):
        st.caption(
            f"Measured on {plain(timings.made.said)}; PyTorch {plain(timings.made.torch)}, "
            f"float32, {timings.rounds} rounds in one process, k = {timings.kernel}, "
            f"r = {timings.window}, heads of width 64. Memory counts "
            "the bytes of tensors that a forward pass makes and holds at once, without weights "
            "and the kernels' own scratch; layers that would hold over "
            f"{timings.made.held / 2**20:,.0f} MiB are left out. {code(timings.made.command)}"
        )
        draw_measuring()


def _crossings(timings: Measurement, first: LayerKind, second: LayerKind) -> dict[int, Estimate]:
    work = partial(crossings, timings, first, second)
    return once(("crossings", timings.made.date, first, second), work)


def _draw_costs(timings: Measurement, d: int, own: bool) -> None:
    picture, row = st.container(), st.container(horizontal=True, vertical_alignment="center")
    quantity = choose_one("Quantity", LayersChoice.quantity, QUANTITIES, row, width="content")
    widths = {width: f"d = {width}" for width in timings.widths}
    choose_one("Width", LayersChoice.width, widths, row, chosen=d, width="content")
    row.toggle("All seven layers", **bound(LayersChoice.every))
    more = row.container(horizontal=True, horizontal_alignment="right")
    measured = timings.to_json() if own else ""
    download_below(more, None, f"layer-costs-{d}", layer_costs, d=d, measured=measured)
    lines, theme = lines_of(timings, quantity, d), current_theme()
    if not url_state.get(LayersChoice.every):
        lines = {name: lines[name] for name in (LAYER_COSTS[kind].name for kind in COMPARED[0])}
    chart = drawn(cost_lines, timings.lengths, lines, AXES[quantity][0], d, theme)
    last = {name: line[-1] for name, line in lines.items() if math.isfinite(line[-1])}
    draw_chart(
        chart,
        f"{QUANTITIES[quantity]} of {len(lines)} layers of width {d} by length; at "
        f"n = {timings.lengths[-1]} from {min(last.values(), default=0):.3g} to "
        f"{max(last.values(), default=0):.3g} {AXES[quantity][0]}.",
        picture,
    )


def _draw_table(timings: Measurement, d: int) -> None:
    rows = once(("exponents", timings.made.date, d), lambda: exponents(timings, d))
    st.markdown(
        "A quantity that grows like $n^p$ is a straight line of slope $p$ above. Slopes are "
        "least-squares fits to medians over the sizes named, with the 95% interval of a bootstrap "
        f"over {timings.rounds} rounds; in d at n = {timings.lengths[-1]:,}.\n\n"
        "Table 1 counts $n^2 d$ for self-attention. A whole layer also projects to Q, K, V and "
        "back, which is $4nd^2$: with that, *counted* falls below 2."
    )
    st.table(
        {
            "layer": [LAYER_COSTS[row.kind].name for row in rows],
            "table 1": [f"$O({LAYER_COSTS[row.kind].complexity})$" for row in rows],
            "over n": [_range(row.lengths) for row in rows],
            "time in n": [_interval(row.in_n) for row in rows],
            "counted": [_or_dash(row.expected) for row in rows],
            "memory in n": [_or_dash(row.memory) for row in rows],
            "over d": [_range(row.widths) for row in rows],
            "time in d": [_interval(row.in_d) for row in rows],
        },
        hide_index=True,
    )


def _draw_crossings(timings: Measurement) -> None:
    st.markdown(
        "By table 1 self-attention has fewer operations than a recurrent layer as long as $n < d$. "
        "That holds for its products alone; *by count* includes the projections of a whole layer. "
        "Time also depends on the machine: the n steps of a recurrent layer come one after the "
        "other, which leaves part of a processor idle."
    )
    columns: dict[str, list[str]] = {"self-attention": [], "recurrent": [], "by count": []}
    columns |= {f"time, d = {d}": [] for d in timings.widths}
    for first, second in COMPARED:
        estimates = _crossings(timings, first, second)
        columns["self-attention"].append(LAYER_COSTS[first].name)
        columns["recurrent"].append(LAYER_COSTS[second].name)
        ratio = counted_crossing(first, second, timings.widths[-1]) / timings.widths[-1]
        columns["by count"].append(
            f"n > {ratio:.3g} d".replace(" 1 ", " ") if ratio > 0 else "every n"
        )
        for d in timings.widths:
            columns[f"time, d = {d}"].append(_length(estimates.get(d), timings))
    st.table(columns, hide_index=True)
    st.caption(
        "The counts apply to any machine. The lengths at which self-attention becomes slower were "
        "measured on one machine under one load"
        f"{' (too high to store the results)' * bool(timings.refusal)}: "
        f"{plain(timings.made.said)}. The 95% intervals cover this measurement only; times "
        "differ between machines and from hour to hour, so measure yours below."
    )


def _length(estimate: Estimate | None, timings: Measurement) -> str:
    if estimate is None:
        return "–"

    def say(n: float) -> str:
        if math.isinf(n):
            return f"beyond {timings.lengths[-1]:,}"
        return f"{n:,.0f}" if n else f"below {timings.lengths[0]:,}"

    exact = estimate.low == estimate.high or not 0 < estimate.value < math.inf
    return say(estimate.value) if exact else _interval(estimate, say)


def _range(sizes: Sequence[int]) -> str:
    return f"{sizes[0]:,} to {sizes[-1]:,}" if len(sizes) > 1 else "–"


def _interval(estimate: Estimate | None, say: Callable[[float], str] = signed) -> str:
    if estimate is None:
        return "–"
    return f"{say(estimate.value)} ({say(estimate.low)} to {say(estimate.high)})"


def _or_dash(value: float | None) -> str:
    return "–" if value is None else signed(value)


def draw_measuring() -> None:
    """Draw the choice of a measurement, and a button to make one or its progress."""
    job = current_job()
    if last_measurement() is not None:
        choose_one("Measurement", LayersChoice.source, MEASURED, label_visibility="visible")
    if job is not None and job.running:
        _draw_progress(job)
        return
    refused = job.future.result().refusal if job is not None and job.phase == "done" else None
    if job is not None and (error := job.error or refused):
        st.error(f"Measuring failed: {plain(error)}.", icon=":material/error:")
    why = public.job_refusal(_WHAT)
    st.button(
        "Measure again on this machine", icon=":material/timer:", key="measure_layers",
        on_click=_begin, disabled=why is not None,
        help="About two minutes on one core, at most 1 GiB of memory. Kept only if the machine "
        "is otherwise mostly idle." if why is None else f"{why} The command does the same.",
    )  # fmt: skip


def _begin() -> None:
    if public.job_refusal(_WHAT) is None:
        st.session_state[_OWN] = begin_measuring()
        url_state.put(LayersChoice.source, "here")


@st.fragment(run_every=1.0)
def _draw_progress(job: Job[Measurement]) -> None:
    if not job.running:
        st.rerun()
    done, total = job.progress
    starting = total <= 0
    text = "Starting" if starting else f"Measured {done:,} of {total:,} layers"
    st.progress(0.0 if starting else min(1.0, done / total), text)
    if st.session_state.get(_OWN) is job:
        st.button("Stop", icon=":material/stop:", on_click=job.stop, key="stop_measuring")
    st.caption("Keep the machine idle meanwhile: results under load are discarded.")


@st.fragment
def draw_path() -> None:
    """Draw the view; a fragment, so a step reruns only this."""
    PathChoice.show()
    kind = cast(PathKind, choose_one("Layer", PathChoice.kind, {k: PATHS[k][0] for k in KINDS}))
    n = _draw_choices(kind)
    start, end = ends(n)
    steps = path_length(kind, end - start, size_of(kind))
    chosen = url_state.get(PathChoice.walked)
    walked = steps if chosen is None else min(steps, chosen)
    _draw_walk(kind, n, start, end, walked, steps)
    _draw_lengths(kind, end - start, n)
    url_state.write_url()


def _draw_choices(kind: PathKind) -> int:
    places = st.columns([3, 5, 3], gap="large")
    places[0].slider(
        "Length n", 4, 32, help="Positions of the sequence.", **bound(PathChoice.length)
    )
    n = url_state.get(PathChoice.length)
    start, end = ends(n)
    places[1].slider(
        "From one position to another", 1, n,
        **bound(PathChoice.between, value=(start + 1, end + 1)),
    )  # fmt: skip
    if kind in ("convolution", "dilated"):
        places[2].select_slider(
            "Kernel k", (3, 5, 7), help="Positions that one layer reads.",
            **bound(PathChoice.kernel),
        )  # fmt: skip
    elif kind == "restricted":
        places[2].select_slider(
            "Window r", (2, 4, 6, 8), help="Neighbours that one layer reads, half on each side.",
            **bound(PathChoice.window),
        )  # fmt: skip
    return n


def _draw_walk(kind: PathKind, n: int, start: int, end: int, walked: int, steps: int) -> None:
    def go(to: int) -> None:
        url_state.put(PathChoice.walked, min(steps, max(0, to)))

    with st.container(horizontal=True, vertical_alignment="center"):
        for label, icon, to, disabled in (
            ("Start", "first_page", 0, walked == 0),
            ("Back", "chevron_left", walked - 1, walked == 0),
            ("Step", "chevron_right", walked + 1, walked == steps),
        ):
            st.button(label, icon=f":material/{icon}:", key=f"path_{label.lower()}", on_click=go,
                      args=(to,), disabled=disabled)  # fmt: skip
        word = "step" if kind == "recurrent" else "layer"
        st.markdown(f"**{walked}** of {count(steps, word)}")
    draw_chart(
        path_picture(kind, start, end, walked, n, size_of(kind), current_theme()),
        f"{PATHS[kind][0]}: a signal from position {start + 1} to {end + 1} after {walked} of "
        f"{count(steps, word)}.",
    )
    st.caption(_RULES[kind])


_RULES: dict[PathKind, str] = {
    "recurrent": "A state is computed from the one before it, so a signal passes through every "
    "position between the two, in a layer that reads from left to right.",
    "convolution": "A layer reads its k nearest positions, so a signal moves at most (k-1)/2 "
    "positions per layer; the paper's n/k leaves out the factor 2.",
    "dilated": "Layer by layer, the positions read are 1, k, k² apart, here to the left only. Each "
    "layer carries one digit of the distance, written in base k.",
    "restricted": "A layer reads r neighbours, half of them on each side; the paper's n/r leaves "
    "out the factor 2.",
    "attention": "A layer reads every position, so one is enough, however far apart the two are.",
}  # fmt: skip


def _draw_lengths(kind: PathKind, distance: int, n: int) -> None:
    place = section(
        "Why short paths",
        "An error at one end must train the other end, through every node between them. Shorter "
        "paths make long-range dependencies easier to learn (section 4), such as a pronoun and "
        "its noun.\n\n"
        f"These are the path lengths for a distance of {distance}.",
    )
    lengths = {PATHS[k][0]: path_length(k, distance, size_of(k)) for k in KINDS}
    chart = bars(lengths, "layers or steps", current_theme(), marked=(PATHS[kind][0],),
                 written="d", height=220)  # fmt: skip
    draw_chart(chart, "; ".join(f"{name} {length}" for name, length in lengths.items()), place)
    kernel, window = size_of("convolution"), size_of("restricted")
    download_below(place, None, "path-lengths", path_lengths, n=n, kernel=kernel, window=window)


def draw_maps(view: View, config: ModelConfig) -> None:
    """Draw the view for a checkpoint of this project."""
    bytes_at = {n: sum(map_bytes(config, n).values()) for n in LENGTHS}
    most = map_bytes(config, LENGTHS[-1])
    heads = config.decoder_heads
    place = section(
        "Bytes of all maps",
        "The app shows the weight of every pair of tokens, so it must store them all. With "
        f"{LENGTHS[-1]} tokens on either side, this model has\n\n"
        f"- {config.n_encoder_layers} × {config.n_heads} maps of the source, "
        f"{most['encoder'] / 1e6:,.1f} MB\n"
        f"- {config.n_decoder_layers} × {heads} maps of the translation, "
        f"{most['decoder'] / 1e6:,.1f} MB\n"
        f"- {config.n_decoder_layers} × {heads} maps from one to the other, "
        f"{most['cross'] / 1e6:,.1f} MB\n\n"
        f"of {LENGTHS[-1]}² float32 numbers each. **Every token meets every token: twice the "
        "tokens, four times the pairs.**",
    )
    sizes = {f"{n} tokens": size / 1e6 for n, size in bytes_at.items()}
    draw_chart(
        bars(sizes, "megabytes, layers × heads × n² × 4", current_theme(),
             marked=(f"{LENGTHS[-1]} tokens",), written=",.1f"),
        f"All maps take {bytes_at[LENGTHS[0]] / 1e6:.1f} MB at {LENGTHS[0]} tokens and "
        f"{bytes_at[LENGTHS[-1]] / 1e6:.1f} MB at {LENGTHS[-1]}.",
        place,
    )  # fmt: skip
    download_below(
        place, None, "bytes-of-maps", bytes_of_maps, config=config.to_json(), lengths=LENGTHS
    )
    _draw_times(view, config)


def _draw_times(view: View, config: ModelConfig) -> None:
    place = section(
        "Seconds",
        "One pass over random tokens by this model, with n source and n target tokens: once "
        "with every map recorded, once with fused attention, which stores none. Maps grow with n², "
        "projections and feed-forward networks with n.",
    )
    key = ("time of maps", view.entry.ref.mark, view.device)
    times_of_maps: tuple[Reals, Reals] | None = CACHE.get(key)
    if times_of_maps is None:
        if not place.button(
            "Time this model", icon=":material/timer:", key="time_maps",
            help="Takes a few seconds; other work on this machine slows it down.",
        ) and not st.session_state.pop(_ASKED, False):  # fmt: skip
            return
        model = get_translator(view).model
        st.session_state[_ASKED] = True  # so that any other rerun continues it
        times_of_maps = run(
            key, lambda report: time_maps(model, lengths_of(config), report=report),
            "Timing: pass {step} of {most}", "Time this model",
        )  # fmt: skip
        st.session_state.pop(_ASKED, None)
    recorded, fused = (np.median(seconds, axis=1) * 1e3 for seconds in times_of_maps)
    lengths = lengths_of(config)
    lines, theme = {"maps recorded": recorded, "fused": fused}, current_theme()
    chart = cost_lines(lengths, lines, AXES["time"][0], 0, theme)
    times = f"**{recorded[-1]:,.0f} ms** with all maps, {fused[-1]:,.0f} ms without."
    draw_chart(chart, f"At {lengths[-1]} tokens {times.replace('*', '')}", place)
    place.caption(f"At {lengths[-1]} tokens {times} Medians of three rounds on this server.")
