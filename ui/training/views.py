"""The Training page's settings, and a toy run on screen: its form, controls, curves and maps."""

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import streamlit as st

from figures.labels import KIND_NAMES, code, plain
from figures.training import curves
from transformer.config import ConfigError
from transformer.training.toys.files import KEPT, Wish, map_updates, read_maps, read_probe
from transformer.training.toys.settings import BOUNDS, CHANGES, RATES, TASKS, ToySettings
from transformer.training.watching import read_metrics
from transformer.translator import Translator
from transformer.types import AttentionKind, CheckpointError, Report
from ui.components.grid import grid_component, grid_sheet
from ui.components.mount import show
from ui.core import url_state
from ui.core.glossary import term
from ui.core.layout import current_theme, draw_chart
from ui.core.url_state import Param
from ui.core.widgets import Choice, bound, choose_one, sets
from ui.frame.import_access import refusal
from ui.models.import_plan import cannot_write, free_name
from ui.training import jobs
from ui.training.jobs import BusyError, Training, begin, busy, keep
from ui.work.desk import run as run_at_desk

_DEFAULT = ToySettings()


def _whole(name: str, field: str) -> Param[int]:
    return Param(name, url_state.whole(*BOUNDS[field]), getattr(_DEFAULT, field))


@dataclass(frozen=True)
class ToyChoice(Choice):
    """The URL parameters of a new run, named as in `ToySettings`."""

    task: Param[str] = Param("toy", url_state.one_of(TASKS), _DEFAULT.task)
    change: Param[str] = Param("toy_change", url_state.one_of(CHANGES), "none")
    d_model: Param[int] = _whole("toy_width", "d_model")
    n_heads: Param[int] = _whole("toy_heads", "n_heads")
    n_layers: Param[int] = _whole("toy_layers", "n_layers")
    warmup: Param[int] = _whole("toy_warmup", "warmup")
    updates: Param[int | None] = Param("toy_updates", url_state.whole(*BOUNDS["updates"]), None)
    peak_lr: Param[float] = Param("toy_peak", url_state.number(*RATES), _DEFAULT.peak_lr)
    seed: Param[int] = _whole("toy_seed", "seed")

    def models(self) -> list[ToySettings]:
        """Return the models to train: the paper's and any variant. Raises `ConfigError`."""
        updates = self.updates or TASKS[self.task].updates
        first = ToySettings(**asdict(self) | {"change": "none", "updates": updates})
        return [first] if self.change == "none" else [first, replace(first, change=self.change)]


#: The run on screen, and the attention kind of its maps.
RUN: Param[str] = Param("training", url_state.text(40), "")
KIND: Param[str] = Param("toy_maps", url_state.one_of(KIND_NAMES), "cross")

#: The page's views, which the menu lists.
VIEW: Param[str] = Param("training_view", url_state.one_of(("toy", "watch", "table3")), "toy")

#: Measures in table 3.
MEASURES = {"nll": "Perplexity", "bleu": "BLEU"}
MEASURE: Param[str] = Param("table3", url_state.one_of(MEASURES), "nll")

#: Names of the watched runs, separated by commas.
WATCHED: Param[str] = Param("watch", url_state.text(80), "")

#: Session state: the name of this session's last run.
_LAST = "headlight_last_run"

#: Seconds between updates of a live run, and between checks during another visitor's run.
_EVERY, _CHECK = 1.0, 2.0
#: Factors of the scheduled learning rate.
_FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0)
#: Number of example sentences; a small screen shows four.
_EXAMPLES = 10
#: Chart title, field in metrics.jsonl, and True for a share.
_CURVES = (("loss, nats per token", "loss", False), ("accuracy on held-out text", "accuracy", True),
           ("learning rate", "lr", False))  # fmt: skip


def draw_run(run: Training, use: Callable[[str], None]) -> None:
    """Draw a run, repeatedly while it is live."""
    url_state.show(RUN, KIND)
    st.session_state[_LAST] = run.name
    live = run.job.running
    st.fragment(_draw, run_every=_EVERY if live else None)(run, live)
    if not live:
        _draw_keep(run, use)
        st.button("New run", icon=":material/add:", key="new_run", **sets(RUN, None))
        _draw_try(run)


def _draw_try(run: Training) -> None:
    """Draw a box for the visitor's own text, and what the trained models make of it."""
    task = TASKS[run.settings[0].task]
    models = [(run.lane(at) / KEPT, settings) for at, settings in enumerate(run.settings)]
    models = [(path, settings) for path, settings in models if path.is_dir()]
    if not models:
        return
    text = st.text_input(
        "Try your own text", max_chars=60, key="try_toy", placeholder=task.probe, width=320
    ).strip()
    for path, settings in models if text else ():
        written = run_at_desk(("toy", path, text), partial(_written, path, text))
        verdict = ""
        with suppress(LookupError, ValueError):  # it is no text of the task
            right = task.answer(text)
            verdict = ": right." if written == right else f". Right is {code(right)}."
        lead = f"{_name(settings, len(run.settings))}: " if len(models) > 1 else ""
        st.markdown(f"{plain(lead)}{code(text)} becomes {code(written) or '(nothing)'}{verdict}")


def _written(path: Path, text: str, report: Report) -> str:
    del report  # a moment's work
    return Translator.load(path, device="cpu").translate([text], beam_size=1)[0].text


def _draw(run: Training, live: bool) -> None:
    if live and not run.job.running:
        st.rerun()
    lines = _lines(run)
    _draw_head(run, lines)
    _draw_curves(lines)
    _draw_maps(run, list(lines))
    url_state.write_url()


def _lines(run: Training) -> dict[str, list[dict[str, Any]]]:
    names = [_name(settings, len(run.settings)) for settings in run.settings]
    return {name: read_metrics(run.lane(index)) for index, name in enumerate(names)}


def _draw_curves(lines: dict[str, list[dict[str, Any]]]) -> None:
    theme = current_theme()
    for column, (title, field, share) in zip(st.columns(3), _CURVES, strict=True):
        values = {
            name: [(line["update"], line[field]) for line in logged if field in line]
            for name, logged in lines.items()
        }
        chart = curves(values, title, theme, share=share)
        draw_chart(chart, f"{title}: {last(values)}", column, f"training_{field}")


def _name(settings: ToySettings, models: int) -> str:
    if settings.change != "none":
        return CHANGES[settings.change]
    return "as in the paper" if models > 1 else TASKS[settings.task].title


def last(values: Mapping[str, Sequence[tuple[int, Any]]]) -> str:
    """Return the last values of curves, as a sentence for screen readers."""
    ends = [f"{name} {line[-1][1]:.3g}" for name, line in values.items() if line]
    return ", ".join(ends) or "nothing yet"


def _draw_head(run: Training, lines: dict[str, list[dict[str, Any]]]) -> None:
    most = max(settings.updates for settings in run.settings)
    text = f"update {run.update:,} of {most:,}"
    for name, logged in lines.items():
        if accuracies := [line["accuracy"] for line in logged if "accuracy" in line]:
            model = f"{plain(name)}: " if len(lines) > 1 else ""
            text += f"; {model}**{accuracies[-1]:.0%}** correct"
    phase = "training" if run.phase == "running" else run.phase
    title = TASKS[run.settings[0].task].title
    st.progress(min(1.0, run.update / most), f"{title}: {phase}, {text}")
    if run.job.error:
        st.error(plain(run.job.error), icon=":material/error:")
    if run.job.running:
        _draw_controls(run)


def _draw_controls(run: Training) -> None:
    request = run.control
    paused = request.wish == "pause"
    with st.container(horizontal=True, vertical_alignment="bottom"):
        wish: Wish = "run" if paused else "pause"
        st.button(
            "Resume" if paused else "Pause", key="pause_training", on_click=run.job.ask,
            icon=":material/play_arrow:" if paused else ":material/pause:",
            args=(replace(request, wish=wish),),
        )  # fmt: skip
        step = replace(request, wish="pause", until=run.update + 1)
        st.button(
            "One step", icon=":material/skip_next:", key="step_training", on_click=run.job.ask,
            args=(step,), disabled=not paused, help="Makes one update, then pauses again.",
        )  # fmt: skip
        st.button(
            "Stop", icon=":material/stop:", key="stop_training", on_click=run.job.ask,
            args=(replace(request, wish="stop"),), help="Ends training and keeps the weights.",
        )  # fmt: skip
        if "rate_training" not in st.session_state:
            st.session_state.rate_training = request.factor
        st.select_slider(
            "Learning rate (× schedule)", _FACTORS, key="rate_training", width=260,
            on_change=lambda: run.job.ask(
                replace(run.control, factor=float(st.session_state.rate_training))
            ),
            format_func=lambda factor: f"× {factor:g}",
        )  # fmt: skip


def _draw_maps(run: Training, names: list[str]) -> None:
    choose_one("Attention", KIND, KIND_NAMES, label_visibility="visible")
    updates = map_updates(run.lane(0))
    if not updates:
        st.caption("Maps appear after the first update.")
        return
    update = updates[-1]
    if not run.job.running and len(updates) > 1:
        update = st.select_slider("After update", updates, update, key="map_update")
    kind = cast(AttentionKind, url_state.get(KIND))
    for index, name in enumerate(names):
        path = run.lane(index)
        try:
            maps = read_maps(path, update)[kind]
        except (OSError, ValueError, KeyError):
            continue
        if (probe := read_probe(path)) is None:
            continue
        source, target = probe
        queries = source if kind == "encoder_self" else target
        keys = target if kind == "decoder_self" else source
        lead = f"{plain(name)}, after" if len(names) > 1 else "After"
        st.caption(f"{lead} update {update:,}")
        sheet = grid_sheet(maps, queries, keys, label=f"{KIND_NAMES[kind]}, update {update}")
        show(grid_component(sheet, (None, None)), key=f"training_maps_{index}")


def _draw_keep(run: Training, use: Callable[[str], None]) -> None:
    for settings in run.settings:
        if not settings.keepable:
            st.caption(
                f"The model with {CHANGES[settings.change]} cannot be kept: a checkpoint holds "
                "only the paper's architecture."
            )
    lanes = [index for index in range(len(run.settings)) if (run.lane(index) / KEPT).is_dir()]
    if lanes and (why := cannot_write() or refusal()) is not None:
        st.caption(f":material/lock: You cannot keep the model as a checkpoint. {plain(why)}")
        return
    for index in lanes:
        _draw_keep_one(run, index, _name(run.settings[index], len(run.settings)), use)


def _draw_keep_one(run: Training, index: int, name: str, use: Callable[[str], None]) -> None:
    settings = run.settings[index]
    key, kept = f"keep_name_{index}", f"kept_{run.name}_{index}"
    if kept in st.session_state:
        checkpoint = st.session_state[kept]
        with st.container(horizontal=True, vertical_alignment="center"):
            st.success(f"Kept as **{plain(checkpoint)}**.", icon=":material/check:")
            st.button(
                "Use it", key=f"use_{index}", type="primary", on_click=use, args=(checkpoint,)
            )
        return
    if key not in st.session_state:
        change = "" if settings.change == "none" else f"-{settings.change.replace('_', '-')}"
        st.session_state[key] = free_name(f"{settings.task}{change}").replace("-imported", "-toy")

    def take() -> None:
        chosen = st.session_state[key].strip()
        try:
            keep(run, index, chosen)
        except CheckpointError as error:
            st.toast(plain(str(error)), icon=":material/error:")
        else:
            st.session_state[kept] = chosen

    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.text_input(f"Checkpoint name for “{name}”", key=key, max_chars=64, width=320)
        st.button("Keep", icon=":material/save:", key=f"keep_{index}", on_click=take)


def draw_form() -> None:
    """Draw the choices and the button that starts the run."""
    ToyChoice.show()
    left, right = st.columns([3, 2], gap="large")
    task = TASKS[url_state.get(ToyChoice.task)]
    with left:
        st.pills(
            "Task", tuple(TASKS), format_func=lambda name: TASKS[name].title, required=True,
            wrap=True, **bound(ToyChoice.task),
        )  # fmt: skip
        st.caption(f"{task.about} **What to look for:** {task.look}")
        start = st.container()
        with st.expander("Settings, and a second model beside it", icon=":material/tune:"):
            st.selectbox(
                "Second model", tuple(CHANGES), **bound(ToyChoice.change),
                format_func=lambda name: "None" if name == "none" else CHANGES[name].capitalize(),
                help="A second model, trained on the same batches with one thing changed.",
            )  # fmt: skip
            _draw_settings()
    try:
        settings = ToyChoice.read().models()
    except ConfigError as error:
        st.error(plain(str(error)), icon=":material/error:")
        return
    with start:
        (_draw_start if busy() is None else _draw_waiting)(settings)
    rng = random.Random(url_state.get(ToyChoice.seed))
    sources = [task.probe, *(task.source(rng) for _ in range(_EXAMPLES - 1))]
    right.container(key="toy_examples").markdown(
        "**What it learns**\n\n| Source | Target |\n|:--|:--|\n"
        + "\n".join(f"| `{text}` | `{task.answer(text)}` |" for text in sources)
        + "\n\nIt never trains on the first example, whose maps are drawn every few updates."
    )
    ended = jobs.JOBS.get(st.session_state.get(_LAST, ""))
    if ended is not None and ended.phase == "done":
        url_state.show(KIND)
        lines = _lines(ended)
        st.subheader(f"Your last run: {TASKS[ended.settings[0].task].title}")
        _draw_curves(lines)
        _draw_maps(ended, list(lines))


def _draw_settings() -> None:
    columns = st.columns(4)
    names = {
        "d_model": "d_model", "n_heads": "Heads", "n_layers": "Layers per stack",
        "warmup": "Warm-up updates", "seed": "Random seed",
    }  # fmt: skip
    for index, (name, label) in enumerate(names.items()):
        low, high = BOUNDS[name]
        columns[index % 4].number_input(label, low, high, step=1, **bound(getattr(ToyChoice, name)))
    columns[1].number_input(
        "Peak learning rate", *RATES, step=0.001, format="%g", help=term("learning rate"),
        **bound(ToyChoice.peak_lr),
    )  # fmt: skip
    columns[2].number_input(
        "Updates", *BOUNDS["updates"], step=100, **bound(ToyChoice.updates),
        placeholder=str(TASKS[url_state.get(ToyChoice.task)].updates),
    )  # fmt: skip


@st.fragment(run_every=_CHECK)
def _draw_waiting(settings: list[ToySettings]) -> None:
    """Draw a notice of another visitor's run; the button is enabled when that run ends."""
    other = busy()
    if other is None:
        st.rerun()
    st.info(f"{plain(other)} You can start your run when it ends.", icon=":material/hourglass_top:")
    _draw_start(settings, disabled=True)


def _draw_start(settings: list[ToySettings], *, disabled: bool = False) -> None:
    st.button(
        "Start both" if len(settings) > 1 else "Start", type="primary", key="start_training",
        icon=":material/play_arrow:", disabled=disabled, on_click=_begin, args=(settings,),
    )  # fmt: skip


def _begin(settings: list[ToySettings]) -> None:
    try:
        url_state.put(RUN, begin(settings).name)
    except BusyError as error:
        st.toast(plain(str(error)), icon=":material/error:")
