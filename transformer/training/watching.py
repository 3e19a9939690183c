"""Training runs seen from outside: list them and read their logs.

Only small text files are read, without waiting for the process that writes them. Nothing here
imports PyTorch.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformer.config import parse_json
from transformer.files.safe import json_object, modified

#: Maximum bytes read from metrics.jsonl (a line has about 150) and from recipe.json.
_MOST_BYTES, _LARGEST_RECIPE = 16 * 2**20, 2**20

#: A run counts as stopped after this many seconds without a new line.
QUIET_AFTER = 600


@dataclass(frozen=True)
class WatchedRun:
    """A run's state, read from its folder."""

    name: str  # folder name
    lines: tuple[Mapping[str, Any], ...]  # complete lines of metrics.jsonl
    recipe: Mapping[str, Any]  # tables of settings
    finished: bool  # True if the checkpoint is written
    age: float  # seconds since the last line, by the file's time

    @property
    def live(self) -> bool:
        """True if the run seems to be running."""
        return not self.finished and self.age < QUIET_AFTER

    def curve(self, kind: str, name: str) -> list[tuple[int, float]]:
        """Return (update, value) pairs of a logged quantity. `kind` is "update" or "epoch"."""
        return [
            (line["update"], float(line[name]))
            for line in self.lines
            if line.get("kind") == kind and isinstance(line.get(name), int | float)
        ]

    def setting(self, table: str, name: str) -> Any:
        """Return a recipe setting, or None if it is not set."""
        values = self.recipe.get(table)
        return values.get(name) if isinstance(values, Mapping) else None


def list_runs(roots: Iterable[Path], most: int = 100) -> dict[str, Path]:
    """Return the run folders directly below the roots by name, most recently written first."""
    runs: dict[str, Path] = {}
    for root in roots:
        try:
            folders = [path for path in root.iterdir() if (path / "metrics.jsonl").is_file()]
        except OSError:
            continue
        for folder in folders:
            if folder.name.isprintable() and "," not in folder.name:
                runs.setdefault(folder.name, folder)
    newest = sorted(runs.items(), key=lambda run: -modified(run[1] / "metrics.jsonl"))
    return dict(newest[:most])


def read_run(folder: Path) -> WatchedRun:
    """Read a run's folder, ignoring missing or incomplete files."""
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
    """Return the complete lines of a run's metrics.jsonl, or [] if it is missing."""
    try:
        with open(folder / "metrics.jsonl", "rb") as file:
            lines = file.read(_MOST_BYTES).split(b"\n")[:-1]
    except OSError:
        return []
    metrics = []
    for line in lines:
        with suppress(ValueError):
            values = parse_json(line)
            if isinstance(values, dict) and isinstance(values.get("update"), int):
                metrics.append(values)
    return metrics
