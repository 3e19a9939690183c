"""Snapshots of a training run, in one file beside the model's weights.

    snapshots.npz
        updates   int64 [n]      updates before each snapshot, ascending
        val_nll   float32 [n]    loss on the validation text, nats per token; NaN if not measured
        about     text []        JSON: the run's `recipe`, as metrics.json has it; the digest of the
                                 `weights` beside the file; True if they are the `end` of the run;
                                 `cosine` of their attention weights and those of the last snapshot
        steps     float32 [m]    grid of each matrix, in the order of its name
        change_k  int8 [p]       all matrices after updates[k], in grid steps since updates[k - 1]
        far_k     int32 [2, f]   places and steps that change_k cannot hold; they do not carry over
        rest_k    float16 [q]    all vectors after updates[k]

A matrix changes little between snapshots, so the integers of `change_k` compress to a few bits.
Rounding errors do not add up, because each change is relative to the sum of the previous changes;
changes beyond 127 steps continue in the next. Older files lack `about` and `far_k`. `PATH@UPDATES`
names a snapshot wherever a checkpoint's path is expected, see `transformer.checkpoint.reference`.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transformer.checkpoint.reference import MAX_UPDATES, SNAPSHOTS, ModelRef
from transformer.checkpoint.weights import Layout, Shape, check_weights, read_weights, weights_file
from transformer.config import parse_json
from transformer.files.npz import describe_npz, read_npz
from transformer.files.safe import is_there
from transformer.types import CheckpointError

#: Maximum number of snapshots in a file.
MAX_SNAPSHOTS = 64

#: Maximum change between two snapshots in grid steps; the rest follows in the next.
_MOST = 127

#: Maximum number in grid steps, up to which float32 is exact.
_FARTHEST = 2**24

#: Maximum grid step, far above any weight, and low enough that no product overflows.
_LARGEST_STEP = 1e30


@dataclass(frozen=True)
class Snapshot:
    """A moment of training."""

    updates: int  # 0 for the initial weights
    val_nll: float  # validation loss in nats per token, NaN if not measured


@dataclass(frozen=True)
class History:
    """Snapshots of a checkpoint."""

    snapshots: tuple[Snapshot, ...] = ()  # in training order
    about: Mapping[str, Any] = field(default_factory=dict)  # content of `about`

    @property
    def began(self) -> str | None:
        """Checkpoint from which the run started, "" for random weights, None if unknown."""
        try:
            return str(self.about["recipe"]["training"]["init"])
        except (KeyError, TypeError):
            return None


def read_history(folder: Path) -> History:
    """Return a checkpoint's snapshots, without their weights.

    Raises: `CheckpointError` naming the file.
    """
    path = folder / SNAPSHOTS
    if not is_there(path):
        return History()
    arrays = read_npz(path, {"updates", "val_nll", "about"})
    updates, nll = arrays.get("updates"), arrays.get("val_nll")
    if (
        updates is None or nll is None or updates.ndim != 1 or updates.shape != nll.shape
        or updates.dtype.kind not in "iu" or nll.dtype.kind != "f"
        or not 0 < len(updates) <= MAX_SNAPSHOTS
    ):  # fmt: skip
        raise CheckpointError(
            f"{path}: updates and val_nll must be lists of equal length, 1 to {MAX_SNAPSHOTS}"
        )
    values = [*map(int, updates)]
    if not values[0] >= 0 or values[-1] > MAX_UPDATES or np.any(np.diff(values) <= 0):
        raise CheckpointError(
            f"{path}: updates must ascend between 0 and {MAX_UPDATES:,}; they are {values[:12]}"
        )
    snapshots = tuple(Snapshot(n, float(loss)) for n, loss in zip(values, nll, strict=True))
    about: Any = None
    with suppress(ValueError):
        about = parse_json(str(arrays.get("about", "{}")))
    if not isinstance(about, dict) or not isinstance(about.get("cosine", 0.0), float):
        raise CheckpointError(f"{path}: 'about' must be a JSON object with a number as cosine")
    return History(snapshots, about)


def readable_history(folder: Path) -> History:
    """Read snapshots.npz; a damaged file does not keep a good model from loading."""
    try:
        return read_history(folder)
    except CheckpointError:
        return History()


def check_moment(ref: ModelRef) -> list[int]:
    """Return the updates of all snapshots.

    Raises: `CheckpointError` naming the existing snapshots if this one is missing.
    """
    moments = [snapshot.updates for snapshot in read_history(ref.folder).snapshots]
    if ref.updates is not None and ref.updates not in moments:
        existing = ", ".join(f"{updates:,}" for updates in moments) or "none"
        raise CheckpointError(
            f"{ref.folder}: no snapshot after {ref.updates:,} updates; there are: {existing}"
        )
    return moments


def read_state(ref: ModelRef, layout: Layout) -> dict[str, Tensor]:
    """Return the weights of a checkpoint or a snapshot by stored name, in float32.

    Raises: `CheckpointError` naming the file and what is wrong.
    """
    if ref.updates is None:
        return read_weights(weights_file(ref.folder), layout)
    return read_snapshot(ref, layout.stored)


def check_state(ref: ModelRef, layout: Layout) -> None:
    """Check the headers of the weights. Raises like `read_state`."""
    check_weights(weights_file(ref.folder), layout)
    if ref.updates is not None:
        check_moment(ref)


def read_snapshot(ref: ModelRef, shapes: Mapping[str, Shape]) -> dict[str, Tensor]:
    """Return a snapshot's weights by stored name, in float32.

    Args: shapes: see `Layout.stored`.

    Raises: `CheckpointError` naming the file and the fault, or the existing snapshots.
    """
    path, moments = ref.folder / SNAPSHOTS, check_moment(ref)
    matrices = {name: shapes[name] for name in sorted(shapes) if len(shapes[name]) > 1}
    vectors = {name: shapes[name] for name in sorted(shapes) if len(shapes[name]) <= 1}
    last = moments.index(ref.updates or 0)
    n_numbers = sum(map(math.prod, matrices.values()))
    changes = [f"change_{k}" for k in range(last + 1)]
    expected: dict[str, tuple[Shape, type[np.generic]]] = {
        **dict.fromkeys(changes, ((n_numbers,), np.int8)),
        "steps": ((len(matrices),), np.float32),
        f"rest_{last}": ((sum(map(math.prod, vectors.values())),), np.float16),
    }
    headers = describe_npz(path, {*expected, far := f"far_{last}"})
    if far in headers:
        expected[far] = (2, *headers[far][0][1:]), np.int32
    for name, (shape, dtype) in expected.items():
        if headers.get(name) != (shape, np.dtype(dtype)):
            raise CheckpointError(
                f"{path}: {name!r} should be {list(shape)} of {np.dtype(dtype)}, "
                "as config.json has it"
            )
    grid = np.zeros(n_numbers, np.int32)
    for name in changes:
        grid += read_npz(path, {name})[name]
    arrays = read_npz(path, {"steps", f"rest_{last}", far})
    places, further = arrays.get(far, np.zeros((2, 0), np.int32))
    if not ((places >= 0) & (places < n_numbers)).all():
        raise CheckpointError(f"{path}: places of {far!r} must be from 0 to {n_numbers - 1:,}")
    grid[places] += further
    if not ((arrays["steps"] > 0) & (arrays["steps"] < _LARGEST_STEP)).all():
        raise CheckpointError(f"{path}: all of 'steps' must be between 0 and {_LARGEST_STEP:g}")
    state = dict(_cut(arrays[f"rest_{last}"].astype(np.float32), vectors))
    for (name, part), step in zip(_cut(grid, matrices), arrays["steps"], strict=True):
        state[name] = part.astype(np.float32) * step
    for name, array in state.items():
        if not np.isfinite(array).all():
            raise CheckpointError(f"{path}: tensor {name!r} holds NaN or infinite values")
    return {name: torch.from_numpy(array) for name, array in state.items()}


def pack(states: Sequence[Mapping[str, Tensor]], fineness: float) -> dict[str, NDArray[Any]]:
    """Return the file's arrays for these weights.

    Args:
        states: weights by stored name in training order, at least one.
        fineness: grid steps per root mean square of a matrix at the end of training.
    """
    names = sorted(states[-1])
    matrices = [name for name in names if states[-1][name].dim() > 1]
    vectors = [name for name in names if states[-1][name].dim() <= 1]
    sizes = [float(states[-1][name].float().pow(2).mean().sqrt()) for name in matrices]
    largest = [max(float(state[name].abs().max()) for state in states) for name in matrices]
    steps = np.array([
        max(size / fineness, most / _FARTHEST, 1e-8)
        for size, most in zip(sizes, largest, strict=True)
    ], np.float32)  # fmt: skip
    arrays: dict[str, NDArray[Any]] = {"steps": steps}
    grid = np.zeros(sum(states[-1][name].numel() for name in matrices), np.int32)
    for k, state in enumerate(states):
        exact = np.concatenate([
            np.round(state[name].float().numpy().ravel() / step)
            for name, step in zip(matrices, steps, strict=True)
        ]).astype(np.int32)  # fmt: skip
        change = np.clip(exact - grid, -_MOST, _MOST).astype(np.int8)
        grid += change
        arrays[f"change_{k}"] = change
        if len(far := np.flatnonzero(exact - grid)):
            arrays[f"far_{k}"] = np.stack([far, (exact - grid)[far]]).astype(np.int32)
        arrays[f"rest_{k}"] = np.concatenate(
            [state[name].float().numpy().ravel() for name in vectors] or [np.zeros(0)]
        ).astype(np.float16)
    return arrays


def _cut(flat: NDArray[Any], shapes: Mapping[str, Shape]) -> Iterable[tuple[str, NDArray[Any]]]:
    start = 0
    for name, shape in shapes.items():
        size = math.prod(shape)
        yield name, flat[start : start + size].reshape(shape)
        start += size
