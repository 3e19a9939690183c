"""The Cost page's URL parameters, and measurements on this server, one at a time.

The last measurement serves all sessions. Measurements continue when their page is left, in a
separate process: in the server, they would change the threads of all models.
"""

from dataclasses import dataclass
from typing import get_args

from transformer.config import ModelConfig
from transformer.evaluation.complexity_records import Measurement
from transformer.measures.layer_costs import PathKind
from transformer.worker.job import Job, Register
from transformer.worker.process import start_alone
from ui.core import url_state
from ui.core.url_state import Param
from ui.core.widgets import Choice

#: Views of the page, as in the URL, and on screen.
VIEWS = {"time": "Time and memory", "path": "Path length", "maps": "512 tokens here"}
VIEW: Param[str] = Param("cost", url_state.one_of(VIEWS), "time")

#: Quantities of the chart of layers.
QUANTITIES = {"time": "Time", "memory": "Memory", "counted": "Multiply-adds"}
#: Measurements; "here" is this server's, once there is one.
MEASURED = {"shipped": "Included", "here": "This server"}
KINDS: tuple[PathKind, ...] = get_args(PathKind)
#: Lengths of a text whose maps are measured.
LENGTHS = (32, 64, 128, 256, 512)


@dataclass(frozen=True)
class LayersChoice(Choice):
    """The URL parameters of "Time and memory"."""

    source: Param[str] = Param("measured", url_state.one_of(MEASURED), "shipped")
    width: Param[int | None] = url_state.position("width")
    quantity: Param[str] = Param("quantity", url_state.one_of(QUANTITIES), "time")
    every: Param[bool] = url_state.switch("layers")  # all kinds, not only the two that cross


@dataclass(frozen=True)
class PathChoice(Choice):
    """The URL parameters of "Path length"; `between` is two positions, from 1."""

    kind: Param[str] = Param("through", url_state.one_of(KINDS), KINDS[0])
    length: Param[int] = Param("length", url_state.whole(4, 32), 16)
    between: Param[tuple[int, int]] = Param(
        "between", lambda raw: url_state.parse_pair(raw, most=32), (3, 14), url_state.write_pair
    )
    kernel: Param[int] = Param("kernel", url_state.whole(3, 7), 3)
    window: Param[int] = Param("window", url_state.whole(2, 8), 4)
    walked: Param[int | None] = Param("walked", url_state.whole(0, 99), None)


def ends(n: int) -> tuple[int, int]:
    """Return the two positions among n, counted from 0, the second after the first."""
    first, second = sorted(min(place, n) for place in url_state.get(PathChoice.between))
    if first == second:
        first, second = (first, second + 1) if second < n else (first - 1, second)
    return first - 1, second - 1


def size_of(kind: str) -> int:
    """Return k or r of a kind of layer; 0 if it has neither."""
    if kind == "restricted":
        window = url_state.get(PathChoice.window)
        return window - window % 2
    kernel = url_state.get(PathChoice.kernel)
    return (kernel - 1 + kernel % 2) if kind in ("convolution", "dilated") else 0


def lengths_of(config: ModelConfig) -> tuple[int, ...]:
    """Return the lengths of `LENGTHS` that a model's positions reach."""
    if config.positions in ("sinusoidal", "relative"):
        return LENGTHS
    return tuple(n for n in LENGTHS if n <= config.max_positions)


#: Measurements by number.
JOBS: Register[int, Job[Measurement]] = Register(kept=10)


def begin_measuring(quick: bool = False) -> Job[Measurement] | None:
    """Start measuring; if `quick`, only small shapes. Returns: None if a measurement is running."""
    # Here, as it imports PyTorch.
    from transformer.evaluation.complexity import QUICK, Plan, measure

    number = max(JOBS.all(), default=0) + 1
    return JOBS.begin(number, lambda: start_alone(measure, QUICK if quick else Plan()))


def current_job() -> Job[Measurement] | None:
    """Return the last job of this server, running or not."""
    return next(reversed(JOBS.all().values()), None)


def last_measurement() -> Measurement | None:
    """Return this server's last measurement that was not made under load, or None."""
    jobs = reversed(JOBS.all().values())
    results = (job.future.result() for job in jobs if job.phase == "done")
    return next((result for result in results if not result.refusal), None)
