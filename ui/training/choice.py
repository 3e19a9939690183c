"""The URL parameters of the Training page."""

from dataclasses import asdict, dataclass

from figures.labels import KIND_NAMES
from transformer.training.toys.settings import BOUNDS, CHANGES, RATES, TASKS, ToySettings
from ui.core import url_state
from ui.core.url_state import Param
from ui.core.widgets import Choice

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
        return [first] if self.change == "none" else [first, first.replace(change=self.change)]


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
