"""Snapshots of a model's training, all in one file beside its weights.

    snapshots.npz
        updates   int64 [n]      updates after which each was taken, ascending
        val_nll   float32 [n]    loss on the validation text, nats per token; NaN if not measured
        continues uint8 []       1 if the checkpoint is the end of that same training
        steps     float32 [m]    grid of each matrix, in the order of its name
        change_k  int8 [p]       all matrices after updates[k], in grid steps since updates[k - 1]
        rest_k    float16 [q]    all vectors after updates[k]

A matrix hardly moves at first, and moves by little more than its own size later: the integers of
`change_k` compress to a few bits. Rounding does not add up, because each change is taken from the
matrix as the reader will have it. `PATH@UPDATES` names one snapshot wherever a checkpoint's path
is expected.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transformer.checkpoint.weights import expected_shapes, stored_names
from transformer.config import ModelConfig
from transformer.errors import CheckpointError
from transformer.files.npz import describe_npz, read_npz
from transformer.files.safe import is_folder, is_there

FILE = "snapshots.npz"

#: Between a checkpoint's path and the updates of one of its snapshots.
SIGN = "@"

#: Limit for the snapshots of one checkpoint, and for the number that names one.
MAX_SNAPSHOTS, MAX_UPDATES = 64, 10**9

#: Largest change of a number between two snapshots in grid steps; what is left follows in the next.
_MOST = 127

#: Limit for a grid step, far above any weight, and low enough that no product overflows.
_LARGEST_STEP = 1e30


@dataclass(frozen=True)
class Snapshot:
    """One moment of training.

    Attributes:
        updates: made before it was taken; 0 is the model with its first weights.
        val_nll: loss on the validation text in nats per token, NaN if it was not measured.
    """

    updates: int
    val_nll: float


@dataclass(frozen=True)
class History:
    """What a checkpoint tells of its training.

    Attributes:
        snapshots: in the order of training; empty if none were kept.
        continues: whether the checkpoint itself is the end of that training, not of another one.
    """

    snapshots: tuple[Snapshot, ...] = ()
    continues: bool = False


def split_path(path: str | Path) -> tuple[Path, int | None]:
    """Split `PATH@UPDATES` into the checkpoint's folder and the updates.

    What exists under the whole name is that folder; its updates are None, as for a path without
    the sign.
    """
    path = Path(path)
    name, updates = split_name(path.name)
    if updates is None or is_there(path):
        return path, None
    folder = path.with_name(name)
    return (folder, updates) if is_folder(folder) else (path, None)


def split_name(name: str) -> tuple[str, int | None]:
    """Split `NAME@UPDATES`; the updates are None without a number that `at` writes."""
    stem, _, digits = name.rpartition(SIGN)
    if not stem or len(digits) > 10 or not (digits.isascii() and digits.isdecimal()):
        return name, None
    updates = int(digits)
    plain = str(updates) == digits and updates <= MAX_UPDATES
    return (stem, updates) if plain else (name, None)


def at(name: str, updates: int | None) -> str:
    """Return the name of a checkpoint's snapshot, or of the checkpoint itself for None."""
    return name if updates is None else f"{name}{SIGN}{updates}"


def read_history(folder: Path) -> History:
    """Return what the file says of its snapshots, without their weights.

    Raises: `CheckpointError` naming the file.
    """
    path = folder / FILE
    if not is_there(path):
        return History()
    found = read_npz(path, {"updates", "val_nll", "continues"})
    updates, nll = found.get("updates"), found.get("val_nll")
    if (
        updates is None or nll is None or updates.ndim != 1 or updates.shape != nll.shape
        or updates.dtype.kind not in "iu" or nll.dtype.kind != "f"
        or not 0 < len(updates) <= MAX_SNAPSHOTS
    ):  # fmt: skip
        raise CheckpointError(
            f"{path}: updates and val_nll must be lists of equal length, 1 to {MAX_SNAPSHOTS}"
        )
    values = [int(each) for each in updates]
    if not values[0] >= 0 or values[-1] > MAX_UPDATES or np.any(np.diff(values) <= 0):
        raise CheckpointError(
            f"{path}: updates must ascend between 0 and {MAX_UPDATES:,}; they are {values[:12]}"
        )
    snapshots = tuple(Snapshot(n, float(loss)) for n, loss in zip(values, nll, strict=True))
    return History(snapshots, bool(np.any(found.get("continues", 0))))


def check_moment(folder: Path, updates: int) -> list[int]:
    """Return the updates of all snapshots, among which these are.

    Raises: `CheckpointError` naming those that there are.
    """
    moments = [each.updates for each in read_history(folder).snapshots]
    if updates not in moments:
        there = ", ".join(f"{each:,}" for each in moments) or "none"
        raise CheckpointError(
            f"{folder}: no snapshot after {updates:,} updates; there are: {there}"
        )
    return moments


def read_snapshot(
    folder: Path, shapes: Mapping[str, tuple[int, ...]], updates: int
) -> dict[str, Tensor]:
    """Return the weights of one snapshot by stored name, in float32.

    Args:
        shapes: of the tensors that the checkpoint's weight file holds, see `stored_shapes`.

    Raises: `CheckpointError` naming the file and what is wrong, or the snapshots that there are.
    """
    path, moments = folder / FILE, check_moment(folder, updates)
    matrices = {name: shapes[name] for name in sorted(shapes) if len(shapes[name]) > 1}
    vectors = {name: shapes[name] for name in sorted(shapes) if len(shapes[name]) <= 1}
    last = moments.index(updates)
    n_numbers = sum(map(math.prod, matrices.values()))
    changes = [f"change_{k}" for k in range(last + 1)]
    expected = {
        **dict.fromkeys(changes, ((n_numbers,), np.int8)),
        "steps": ((len(matrices),), np.float32),
        f"rest_{last}": ((sum(map(math.prod, vectors.values())),), np.float16),
    }
    headers = describe_npz(path, expected.keys())
    for name, (shape, dtype) in expected.items():
        if headers.get(name) != (shape, np.dtype(dtype)):
            raise CheckpointError(
                f"{path}: {name!r} should be {list(shape)} of {np.dtype(dtype)}, "
                "as config.json has it"
            )
    grid = np.zeros(n_numbers, np.int16)
    for name in changes:
        grid += read_npz(path, {name})[name]
    found = read_npz(path, {"steps", f"rest_{last}"})
    if not ((found["steps"] > 0) & (found["steps"] < _LARGEST_STEP)).all():
        raise CheckpointError(f"{path}: all of 'steps' must be between 0 and {_LARGEST_STEP:g}")
    state = dict(_cut(found[f"rest_{last}"].astype(np.float32), vectors))
    for (name, part), step in zip(_cut(grid, matrices), found["steps"], strict=True):
        state[name] = part.astype(np.float32) * step
    for name, array in state.items():
        if not np.isfinite(array).all():
            raise CheckpointError(f"{path}: tensor {name!r} holds NaN or infinite values")
    return {name: torch.from_numpy(array) for name, array in state.items()}


def pack(states: Sequence[Mapping[str, Tensor]], fineness: float) -> dict[str, NDArray[Any]]:
    """Return the arrays of the file that hold these weights.

    Args:
        states: weights by stored name in the order of training, at least one.
        fineness: grid steps in the root mean square of a matrix at the end of training.
    """
    names = sorted(states[-1])
    matrices = [name for name in names if states[-1][name].dim() > 1]
    vectors = [name for name in names if states[-1][name].dim() <= 1]
    steps = np.array(
        [max(_root_mean_square(states[-1][name]) / fineness, 1e-8) for name in matrices],
        np.float32,
    )
    arrays: dict[str, NDArray[Any]] = {"steps": steps}
    seen = [np.zeros(states[-1][name].numel(), np.int16) for name in matrices]
    for k, state in enumerate(states):
        changes = []
        for name, step, so_far in zip(matrices, steps, seen, strict=True):
            wanted = np.round(state[name].float().numpy().ravel() / step) - so_far
            change = np.clip(wanted, -_MOST, _MOST).astype(np.int8)
            so_far += change
            changes.append(change)
        arrays[f"change_{k}"] = np.concatenate(changes)
        arrays[f"rest_{k}"] = np.concatenate(
            [state[name].float().numpy().ravel() for name in vectors] or [np.zeros(0)]
        ).astype(np.float16)
    return arrays


def stored_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the tensors that a weight file holds."""
    expected, tied = expected_shapes(config), stored_names(config)
    return {name: shape for name, shape in expected.items() if name not in tied}


def _cut(
    flat: NDArray[Any], shapes: Mapping[str, tuple[int, ...]]
) -> Iterable[tuple[str, NDArray[Any]]]:
    start = 0
    for name, shape in shapes.items():
        size = math.prod(shape)
        yield name, flat[start : start + size].reshape(shape)
        start += size


def _root_mean_square(tensor: Tensor) -> float:
    return float(tensor.float().pow(2).mean().sqrt())
