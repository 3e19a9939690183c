"""Files of a toy run, which can be read while they are written, and requests to the run.

Models have run folders `0/` and `1/` with metrics.jsonl as in every training run, probe.json (the
maps' tokens), maps/UPDATE.npz and, at the end, kept/. Files are renamed into place, so they are
complete even if the writer is killed; an incomplete last line of metrics.jsonl is ignored.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from transformer.config import parse_json
from transformer.files.folders import write_atomic
from transformer.files.npz import packed
from transformer.types import Floats

Wish = Literal["run", "pause", "stop"]

#: Folder of the finished checkpoint, inside its model's folder.
KEPT = "kept"


@dataclass(frozen=True)
class Control:
    """A request to a run."""

    wish: Wish = "run"  # continue, pause, or end and save the model
    until: int = 0  # a paused run continues up to this update
    factor: float = 1.0  # multiplies the scheduled learning rate


def write_maps(path: Path, update: int, maps: dict[str, Floats]) -> None:
    """Write an update's maps in half precision."""
    (path / "maps").mkdir(exist_ok=True)
    halves = {kind: values.astype(np.float16) for kind, values in maps.items()}
    write_atomic(path / "maps" / f"{update:06d}.npz", packed(halves))


def map_updates(path: Path) -> list[int]:
    """Return the updates with recorded maps, in order."""
    return sorted(int(file.stem) for file in (path / "maps").glob("*.npz"))


def read_maps(path: Path, update: int) -> dict[str, Floats]:
    """Return an update's maps by kind, [L, H, T, S]. Raises `OSError` if it has none."""
    with np.load(path / "maps" / f"{update:06d}.npz", allow_pickle=False) as file:
        return {kind: file[kind].astype(np.float32) for kind in file.files}


def write_probe(path: Path, source: list[str], target: list[str]) -> None:
    """Write the pieces for the maps' rows and columns."""
    write_atomic(path / "probe.json", json.dumps([source, target]).encode())


def read_probe(path: Path) -> tuple[list[str], list[str]] | None:
    """Return the probe's pieces, or None if they are not written yet."""
    try:
        source, target = parse_json((path / "probe.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return source, target
