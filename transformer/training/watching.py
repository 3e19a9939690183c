"""Training runs read from outside: which exist, and what they have logged.

Reads small text files only, and never waits for the process that writes them. Nothing here imports
PyTorch.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformer.config import parse_json
from transformer.files.safe import json_object, modified

#: Bytes read of metrics.jsonl at most; a line is about 150.
_MOST_BYTES = 16 * 2**20

#: Bytes of recipe.json at most.
_LARGEST_RECIPE = 2**20

#: Seconds without a new line after which a run counts as stopped.
QUIET_AFTER = 600


@dataclass(frozen=True)
class WatchedRun:
    """The state of a run, read from its folder."""

    name: str  # of the folder
    lines: tuple[Mapping[str, Any], ...]  # of metrics.jsonl, complete ones
    recipe: Mapping[str, Any]  # tables of settings
    finished: bool  # the checkpoint is written
    age: float  # seconds since the last line, by the file's time

    @property
    def live(self) -> bool:
        """True if the run seems to be running."""
        return not self.finished and self.age < QUIET_AFTER

    def curve(self, kind: str, name: str) -> list[tuple[int, float]]:
        """Return a logged quantity by update. `kind` is "update" or "epoch"."""
        return [
            (line["update"], float(line[name]))
            for line in self.lines
            if line.get("kind") == kind and isinstance(line.get(name), int | float)
        ]

    def setting(self, table: str, name: str) -> Any:
        """Return a setting of the recipe, None if it has none."""
        values = self.recipe.get(table)
        return values.get(name) if isinstance(values, Mapping) else None


def list_runs(roots: Iterable[Path], most: int = 100) -> dict[str, Path]:
    """Return the run folders directly below the roots by name, those last written to first."""
    found: dict[str, tuple[int, Path]] = {}
    for root in roots:
        try:
            folders = [each for each in root.iterdir() if (each / "metrics.jsonl").is_file()]
        except OSError:
            continue
        for each in folders:
            if each.name.isprintable() and "," not in each.name:
                found.setdefault(each.name, (modified(each / "metrics.jsonl"), each))
    newest = sorted(found.items(), key=lambda item: -item[1][0])
    return {name: path for name, (_, path) in newest[:most]}


def read_run(folder: Path) -> WatchedRun:
    """Read a run's folder; missing or incomplete files are left out."""
    try:
        recipe = json_object(folder / "recipe.json", _LARGEST_RECIPE)
    except ValueError:
        recipe = {}
    return WatchedRun(
        name=folder.name,
        lines=tuple(read_metrics(folder)),
        recipe=recipe,
        finished=(folder / "model.safetensors").exists(),
        age=max(0.0, time.time() - modified(folder / "metrics.jsonl") / 1e9),
    )


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """Return the whole lines of a run folder's metrics.jsonl; [] if there is none."""
    try:
        with open(folder / "metrics.jsonl", "rb") as file:
            lines = file.read(_MOST_BYTES).split(b"\n")[:-1]
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            values = parse_json(line)
        except ValueError:
            continue
        if isinstance(values, dict) and isinstance(values.get("update"), int):
            found.append(values)
    return found
