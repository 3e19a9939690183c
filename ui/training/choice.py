"""The URL parameters of the Training page."""

from __future__ import annotations

from transformer.toys.settings import BOUNDS, CHANGES, RATES, ToySettings
from transformer.toys.tasks import TASKS
from ui.core import url_state
from ui.core.url_state import Param

_DEFAULT = ToySettings()


def _whole(name: str, param: str) -> Param[int]:
    return Param(param, url_state.whole(*BOUNDS[name]), getattr(_DEFAULT, name))


RUN: Param[str] = Param("training", url_state.text(40), "")
TASK: Param[str] = Param("toy", url_state.one_of(TASKS), _DEFAULT.task)
CHANGE: Param[str] = Param("toy_change", url_state.one_of(CHANGES), "none")
WIDTH = _whole("d_model", "toy_width")
HEADS = _whole("n_heads", "toy_heads")
LAYERS = _whole("n_layers", "toy_layers")
WARMUP = _whole("warmup", "toy_warmup")
UPDATES: Param[int | None] = Param(
    "toy_updates", url_state.whole(*BOUNDS["updates"]), None,
    lambda value: "" if value is None else str(value),
)  # fmt: skip
RATE: Param[float] = Param("toy_peak", url_state.number(*RATES), _DEFAULT.peak_lr)
SEED = _whole("seed", "toy_seed")
KIND: Param[str] = Param(
    "toy_maps", url_state.one_of(("cross", "encoder_self", "decoder_self")), "cross"
)

#: Views of the page, as in the URL, and on screen.
VIEWS = {"toy": "A toy task", "watch": "A run's folder", "table3": "Table 3, repeated"}
VIEW: Param[str] = Param("training_view", url_state.one_of(VIEWS), "toy")

#: Measures of table 3.
MEASURES = {"nll": "Perplexity", "bleu": "BLEU"}
MEASURE: Param[str] = Param("table3", url_state.one_of(MEASURES), "nll")

#: The watched folder.
WATCHED: Param[str] = Param("watch", url_state.text(80), "")

ALL = (TASK, CHANGE, WIDTH, HEADS, LAYERS, WARMUP, UPDATES, RATE, SEED)


def chosen() -> list[ToySettings]:
    """Return the models to train: the paper's and one with a change. Raises `ConfigError`."""
    task = url_state.get(TASK)
    first = ToySettings(
        task=task,
        d_model=url_state.get(WIDTH),
        n_heads=url_state.get(HEADS),
        n_layers=url_state.get(LAYERS),
        warmup=url_state.get(WARMUP),
        peak_lr=url_state.get(RATE),
        updates=url_state.get(UPDATES) or TASKS[task].updates,
        seed=url_state.get(SEED),
    )
    change = url_state.get(CHANGE)
    return [first] if change == "none" else [first, first.replace(change=change)]
