"""Files of a toy run, read while they are written, and requests to the run.

Each model has a run folder `0/`, `1/`: metrics.jsonl as in every training run, probe.json (its
tokens), maps/UPDATE.npz, and at the end kept/. Files are renamed into place, so readers see whole
ones even if the writer is killed; an incomplete last line of metrics.jsonl is ignored.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from transformer.config import parse_json
from transformer.files.atomic import write_atomic
from transformer.types import Floats

Wish = Literal["run", "pause", "stop"]

#: Folder of the finished checkpoint, in its model's folder.
KEPT = "kept"


@dataclass(frozen=True)
class Control:
    """A request to a run."""

    wish: Wish = "run"  # continue, pause, or end and keep what was learned
    until: int = 0  # while paused, continue to this update
    factor: float = 1.0  # multiplies the schedule's learning rate


def write_maps(path: Path, update: int, maps: dict[str, Floats]) -> None:
    """Write the maps of an update, in half precision."""
    (path / "maps").mkdir(exist_ok=True)
    file = path / "maps" / f"{update:06d}.npz"
    partial = file.with_suffix(".partial")
    with open(partial, "wb") as out:
        halves: dict[str, Any] = {kind: each.astype(np.float16) for kind, each in maps.items()}
        np.savez(out, **halves)
    partial.replace(file)


def map_updates(path: Path) -> list[int]:
    """Return the updates whose maps were recorded, in order."""
    return sorted(int(file.stem) for file in (path / "maps").glob("*.npz"))


def read_maps(path: Path, update: int) -> dict[str, Floats]:
    """Return the maps of an update, by kind [L, H, T, S]. Raises `OSError` without them."""
    with np.load(path / "maps" / f"{update:06d}.npz", allow_pickle=False) as file:
        return {kind: file[kind].astype(np.float32) for kind in file.files}


def write_probe(path: Path, source: list[str], target: list[str]) -> None:
    """Write the pieces of the maps' rows and columns."""
    write_atomic(path / "probe.json", json.dumps([source, target]).encode())


def read_probe(path: Path) -> tuple[list[str], list[str]] | None:
    """Return the pieces of the probe, or None before the job has written them."""
    try:
        source, target = parse_json((path / "probe.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return source, target
