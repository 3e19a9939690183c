"""Time and memory of the layers of table 1, measured in one process."""

import contextlib
import datetime
import math
import os
import platform
import random
import re
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from transformer.attention import MultiHeadAttention, attend
from transformer.config import ModelConfig
from transformer.device import resolve_device
from transformer.evaluation.complexity_records import Cell, Measurement, Provenance
from transformer.hooks import Context, Record, matching
from transformer.measures.layer_costs import LAYER_COSTS, LayerKind
from transformer.types import InputError, Report, literals, no_report
from transformer.worker.limits import processors

#: Width of a head, as in the paper's base model.
D_K = 64


@literals
def build(kind: LayerKind, d: int, *, kernel: int, window: int) -> nn.Module:
    """Build a layer with random weights.

    Args:
        d: width, a multiple of `D_K` or a smaller number.
        kernel: odd.  window: even.
    """
    # One module for each way to attend; other settings of the config are not read.
    config = ModelConfig(d_model=d, n_heads=max(1, d // D_K), d_ff=1)
    if kind == "restricted":
        return RestrictedAttention(config, window)
    attention = partial(MultiHeadAttention, config)
    layers: dict[LayerKind, tuple[Callable[[], nn.Module], Callable[[Any, Tensor], Tensor]]] = {
        "recurrent": (partial(nn.RNN, d, d, batch_first=True), lambda layer, x: layer(x)[0]),
        "lstm": (partial(nn.LSTM, d, d, batch_first=True), lambda layer, x: layer(x)[0]),
        "convolution": (  # padded so that the length stays
            partial(nn.Conv1d, d, d, kernel, padding=kernel // 2), lambda layer, x: layer(x.mT).mT
        ),
        "attention": (attention, lambda layer, x: layer(x, x)),
        "explicit": (attention, _recorded),
        "products": (attention, _bare),
    }  # fmt: skip
    make, call = layers[kind]
    return _Layer(make(), call)


class _Layer(nn.Module):
    def __init__(self, layer: nn.Module, call: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.call = layer, call

    def forward(self, x: Tensor) -> Tensor:
        return self.call(self.layer, x)


def _recorded(layer: MultiHeadAttention, x: Tensor) -> Tensor:
    """Self-attention as the models run it with recorded maps."""
    kept = Record(matching(name="weights"))
    output: Tensor = layer(x, x, at=Context("encoder", kept).layer(0).block("self"))
    return output


def _bare(layer: MultiHeadAttention, x: Tensor) -> Tensor:
    """Self-attention without projections, as in the counts of table 1."""
    heads = layer._split(x, layer.d_k)
    return attend(heads, heads, heads).transpose(1, 2).flatten(2)


class RestrictedAttention(MultiHeadAttention):
    """Self-attention to the window / 2 positions on each side and to itself (section 4).

    Queries are cut into blocks of window / 2. Each block meets the keys of three, so the products
    cost 1.5 times what the window needs, and nothing of size n^2 is made.
    """

    def __init__(self, config: ModelConfig, window: int) -> None:
        super().__init__(config)
        self.side = window // 2

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        """Same shape as x."""
        batch, n, _ = x.shape
        side = self.side
        blocks = -(-n // side)
        k, v = self.keys_values(x)
        q = F.pad(self.queries(x), (0, 0, 0, blocks * side - n))
        q = q.reshape(*q.shape[:2], blocks, side, -1)  # [B, H, blocks, side, d_k]
        margins = (0, 0, side, (blocks + 1) * side - n)
        k, v = (F.pad(part, margins).unfold(2, 3 * side, side).mT for part in (k, v))
        q, k, v = (part.transpose(1, 2).flatten(0, 1) for part in (q, k, v))
        heads = attend(q, k, v, self._mask(blocks, n, x.device).repeat(batch, 1, 1, 1))
        # Back from [B blocks, H, side, d_v] to [B, blocks, side, H, d_v].
        heads = heads.view(batch, blocks, *heads.shape[1:]).transpose(2, 3)
        output: Tensor = self.w_o(heads.reshape(batch, blocks * side, -1)[:, :n])
        return output

    def _mask(self, blocks: int, n: int, device: torch.device) -> Tensor:
        """Return the mask of queries over three blocks of keys, [blocks, 1, side, 3 side]."""
        side = self.side
        query = torch.arange(blocks * side, device=device).view(blocks, side, 1)
        first = torch.arange(blocks, device=device).view(blocks, 1, 1) * side - side
        key = first + torch.arange(3 * side, device=device)
        near: Tensor = ((query - key).abs() <= side) & (key >= 0) & (key < n)
        return (near | (query >= n))[:, None]  # rows of padding see all, as each needs one True


#: Bounds of the number of rounds.
LEAST_ROUNDS, MOST_ROUNDS = 5, 15

#: A short forward pass is repeated until it takes this long, in seconds.
_LONG_ENOUGH = 2e-3

_MOST_N, _MOST_D, _MOST_HELD = 2**16, 2**12, 2**40


@dataclass(frozen=True)
class Plan:
    """Shapes and limits of a measurement.

    Raises: `InputError` for invalid values.
    """

    #: lengths, widths: every n and d
    lengths: tuple[int, ...] = tuple(2**power for power in range(5, 13))
    widths: tuple[int, ...] = (128, 256, 512)
    kernel: int = 3  # convolution width, odd
    window: int = 32  # neighbours in restricted self-attention, even
    device: str = "cpu"  # "auto", "cpu" or "cuda"
    threads: int = 1  # PyTorch threads
    seconds: float = 100.0  # target; as many rounds as fit, from `LEAST_ROUNDS` to `MOST_ROUNDS`
    held: int = 2**30  # limit in bytes for the tensors of one layer; larger cells are skipped
    command: str = "python -m transformer complexity"  # repeats the measurement

    def __post_init__(self) -> None:
        for name, values, most in (
            ("lengths", self.lengths, _MOST_N), ("widths", self.widths, _MOST_D),
        ):  # fmt: skip
            rising = all(a < b for a, b in pairwise(values))
            if len(values) < 2 or not rising or values[0] < 1 or values[-1] > most:
                raise InputError(f"{name} {values}: two or more, rising, 1 to {most:,}")
        bad = [d for d in self.widths if d > D_K and d % D_K]
        if bad:
            raise InputError(f"width {bad[0]}: above {D_K}, a multiple of it (the width of a head)")
        held = f"memory limit of {self.held / 2**20:g} MiB"
        for named, fits, allowed in (
            (f"kernel {self.kernel}", self.kernel in range(1, 100, 2), "an odd number, 1 to 99"),
            (f"window {self.window}", self.window in range(2, 1025, 2), "even, 2 to 1024"),
            (f"threads {self.threads}", 1 <= self.threads <= 1024, "1 to 1024"),
            (f"seconds {self.seconds}", 0 <= self.seconds <= 3600, "0 to 3600"),
            (held, 2**20 <= self.held <= _MOST_HELD, "1 MiB to 1 TiB"),
        ):
            if not fits:
                raise InputError(f"{named}: {allowed}")

    @property
    def most_held(self) -> int:
        """Bytes that the largest cell within the limit may hold, an upper estimate."""
        expected = (expected_bytes(*cell) for cell in _cells(self))
        return max((cell for cell in expected if cell <= self.held), default=0)


#: A measurement of seconds, as a check; its exponents mean little.
QUICK = Plan(
    lengths=(32, 64, 128, 256), widths=(64, 128), seconds=0,
    command="python -m transformer complexity --quick",
)  # fmt: skip


class _Timed:
    def __init__(self, layer: nn.Module, x: Tensor) -> None:
        self.layer, self.x, self.repeats = layer, x, 1
        self.seconds: list[float] = []
        self.repeats = max(1, min(1000, math.ceil(_LONG_ENOUGH / self.once())))

    def once(self) -> float:
        """Return the seconds of one forward pass, the mean of `repeats`."""
        _wait(self.x.device)
        begun = time.perf_counter()
        for _ in range(self.repeats):
            self.layer(self.x)
        _wait(self.x.device)
        return (time.perf_counter() - begun) / self.repeats


def measure(plan: Plan, report: Report = no_report) -> Measurement:
    """Measure every cell of a plan.

    Rounds are interleaved: each times every cell once, in a fresh order, so that a machine
    that slows down for a while does not slow down one kind of layer.

    Raises: `InputError` if the device is missing or the limit leaves out everything.
    """
    device = resolve_device(plan.device)
    before = torch.get_num_threads()
    torch.set_num_threads(plan.threads)
    try:
        torch.manual_seed(0)
        timed, held = _prepare(plan, device, report)
        with torch.inference_mode():
            load = _time(list(timed.values()), plan.seconds, report)
    finally:
        torch.set_num_threads(before)
    provenance = Provenance(
        plan.command, datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        torch.cuda.get_device_name(device) if device.type == "cuda" else processor_name(),
        processors(), plan.threads, torch.__version__, load, plan.held,
    )  # fmt: skip
    return Measurement(
        provenance, plan.lengths, plan.widths, plan.kernel, plan.window,
        tuple(
            Cell(*cell, held[cell], tuple(timed[cell].seconds) if cell in timed else ())
            for cell in _cells(plan)
        ),
    )  # fmt: skip


_Key = tuple[LayerKind, int, int]


def _cells(plan: Plan) -> list[_Key]:
    return list(product(LAYER_COSTS, plan.lengths, plan.widths))


def _prepare(
    plan: Plan, device: torch.device, report: Report
) -> tuple[dict[_Key, _Timed], dict[_Key, int]]:
    """Build every layer, count its memory, and warm it up.

    Returns: the layers to time, and the bytes of every cell, estimated for those skipped.
    """
    layers = {
        (kind, d): build(kind, d, kernel=plan.kernel, window=plan.window).to(device).eval()
        for kind, d in product(LAYER_COSTS, plan.widths)
    }
    held = {cell: expected_bytes(*cell) for cell in _cells(plan)}
    within = [cell for cell in held if held[cell] <= plan.held]
    if not within:
        raise InputError(f"memory limit of {plan.held / 2**20:g} MiB: every layer needs more")
    timed = {}
    total = len(within) * (1 + LEAST_ROUNDS)
    for done, (kind, n, d) in enumerate(within):
        report(done, total)
        layer, x = layers[kind, d], torch.randn(1, n, d, device=device)
        held[kind, n, d] = held_bytes(layer, x)
        with torch.inference_mode():
            layer(x)
            timed[kind, n, d] = _Timed(layer, x)
    return timed, held


def _time(timed: list[_Timed], seconds: float, report: Report) -> float:
    """Time all layers in rounds and return the number of processors that other work took."""
    order, begun, clocks = random.Random(0), time.perf_counter(), _clocks()
    rounds, n = MOST_ROUNDS, len(timed)
    for done in range(MOST_ROUNDS):
        for index, layer in enumerate(order.sample(timed, n)):
            report(n * (1 + done) + index, n * (1 + rounds))
            layer.seconds.append(float(f"{layer.once():.4g}"))
        mean = (time.perf_counter() - begun) / (done + 1)
        rounds = min(MOST_ROUNDS, max(LEAST_ROUNDS, int(seconds / mean)))
        if done + 1 >= rounds:
            break
    report(1, 1)
    wall, thread, own, busy = (b - a for a, b in zip(clocks, _clocks(), strict=True))
    # The larger of the processors it waited for and the system's count.
    return round(max(wall / thread - 1, (busy - own) / wall, 0.0), 2)


def _clocks() -> tuple[float, float, float, float]:
    """Seconds passed, of this thread, of this process, of all processors (0 if not known)."""
    busy = 0.0
    with contextlib.suppress(OSError, ValueError):
        ticks = [int(tick) for tick in Path("/proc/stat").read_text().split()[1:9]]
        busy = (sum(ticks) - sum(ticks[3:5])) / os.sysconf("SC_CLK_TCK")  # without idle time
    return time.perf_counter(), time.thread_time(), time.process_time(), busy


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def processor_name(file: Path = Path("/proc/cpuinfo")) -> str:
    """Return the name of this machine's processor."""
    with contextlib.suppress(OSError):
        text = file.read_text("utf-8", "replace")
        if match := re.search(r"^model name\s*: *(\S.*?)\s*$", text, re.MULTILINE):
            return match[1]
    return platform.processor() or platform.machine()


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of results from their operation until they are freed."""

    def __init__(self, known: tuple[Tensor, ...]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._seen = {tensor.untyped_storage().data_ptr() for tensor in known}
        self._live = 0
        self.most: int = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # the default imports the compiler, which takes seconds

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                self._count(leaf)
        return result

    def _count(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        place, size = storage.data_ptr(), storage.nbytes()
        if not size or place in self._seen:
            return
        self._seen.add(place)
        self._live += size
        self.most = max(self.most, self._live)
        weakref.finalize(storage, self._forget, place, size)

    def _forget(self, place: int, size: int) -> None:
        self._seen.discard(place)
        self._live -= size


def held_bytes(layer: nn.Module, x: Tensor) -> int:
    """Return the most bytes that tensors made by a forward pass hold at once.

    Weights, the input, and the kernels' own scratch memory are left out.
    """
    # Not in inference mode, where composite operations are not decomposed.
    counter = _Counter((x, *layer.parameters(), *layer.buffers()))
    with torch.no_grad(), counter:
        layer(x)
    return counter.most


@literals
def expected_bytes(kind: LayerKind, n: int, d: int) -> int:
    """Return an upper bound of `held_bytes` without allocating anything."""
    vectors = 16 * 4 * n * d
    maps = 2 * max(1, d // D_K) * n**2 * 4 if kind == "explicit" else 0
    return vectors + maps
