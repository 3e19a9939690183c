"""The form of a new run."""

from __future__ import annotations

import random

import streamlit as st

from figures.markdown import plain
from transformer.config import ConfigError
from transformer.toys.settings import BOUNDS, CHANGES, RATES, ToySettings
from transformer.toys.tasks import TASKS
from ui.core import url_state
from ui.core.glossary import term
from ui.core.widgets import bound
from ui.training.choice import RUN, ToyChoice
from ui.training.jobs import BusyError, begin, busy, last_done
from ui.training.views import draw_last

#: Seconds between checks while another's run is in progress.
_LOOK = 2.0
_EXAMPLES = 4


def draw_form() -> None:
    """Draw the choices and the button that starts the run."""
    ToyChoice.show()
    left, right = st.columns([3, 2])
    with left:
        st.pills(
            "Task", tuple(TASKS), format_func=lambda name: TASKS[name].title, required=True,
            wrap=True, **bound(ToyChoice.task),
        )  # fmt: skip
        st.caption(TASKS[url_state.get(ToyChoice.task)].about)
    with right:
        st.selectbox(
            "Second run beside it", tuple(CHANGES), format_func=_called, **bound(ToyChoice.change),
            help="A second model, the same but for one change, with the same text and batches.",
        )  # fmt: skip
    with st.expander("Model and settings", icon=":material/tune:"):
        _draw_settings()
    try:
        settings = ToyChoice.read().models()
    except ConfigError as error:
        st.error(plain(str(error)), icon=":material/error:")
        return
    if busy() is not None:
        _draw_turn(settings)
    else:
        _draw_start(settings)
    _draw_examples()
    last = last_done()
    if last is not None:
        draw_last(last)


def _draw_examples() -> None:
    """Draw texts of the task beside their answers, and what to look for in the maps."""
    task = TASKS[url_state.get(ToyChoice.task)]
    rng = random.Random(url_state.get(ToyChoice.seed))
    sources = [task.probe, *(task.source(rng) for _ in range(_EXAMPLES - 1))]
    st.markdown(
        "#### What it learns\n\n| Source | Target |\n|:--|:--|\n"
        + "\n".join(f"| `{text}` | `{task.answer(text)}` |" for text in sources)
        + "\n\nThe first is held out of training; the run draws its attention maps after every few "
        f"updates. **What to look for:** {task.look}"
    )


def _called(change: str) -> str:
    return "none" if change == "none" else CHANGES[change][:1].upper() + CHANGES[change][1:]


def _draw_settings() -> None:
    columns = st.columns(4)
    names = {
        "d_model": "d_model", "n_heads": "Heads", "n_layers": "Layers of each stack",
        "warmup": "Warm-up, updates", "seed": "Random seed",
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


@st.fragment(run_every=_LOOK)
def _draw_turn(settings: list[ToySettings]) -> None:
    """Say that another run is in progress; the button comes back when it ends."""
    other = busy()
    if other is None:
        st.rerun()
    st.info(
        f"{plain(other)} One run at a time: you can start yours as soon as it ends.",
        icon=":material/hourglass_top:",
    )
    _draw_start(settings, disabled=True)


def _draw_start(settings: list[ToySettings], *, disabled: bool = False) -> None:
    label = "Start both" if len(settings) > 1 else "Start"
    st.button(
        label, type="primary", icon=":material/play_arrow:", key="start_training",
        disabled=disabled, on_click=_begin, args=(settings,),
    )  # fmt: skip


def _begin(settings: list[ToySettings]) -> None:
    try:
        url_state.put(RUN, begin(settings).name)
    except BusyError as error:
        st.toast(plain(str(error)), icon=":material/error:")
