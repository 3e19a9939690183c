"""Entries of a catalogue: models on disk, described without loading them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from transformer.checkpoint.reference import Kind, ModelRef, at, split_name
from transformer.checkpoint.snapshots import History
from transformer.checkpoint.weights import weights_digest
from transformer.config import ModelConfig
from transformer.errors import CheckpointError
from transformer.files.folders import FileCache
from transformer.files.safe import json_object
from transformer.models.one_stack.config import StackConfig
from transformer.trace.tracer import Tracer


@dataclass(frozen=True)
class Entry:
    """A model on disk, whether or not it can be opened."""

    name: str  # of its folder or file, followed by the updates of a snapshot
    ref: ModelRef  # where it is, its kind, and the fingerprint of its files
    config: ModelConfig | None = None  # shape of an encoder-decoder of this project, else None
    n_numbers: int = 0  # in memory once it is loaded, 0 if unknown
    error: str | None = None  # why it cannot be opened, as one line, or None
    about: str = ""  # a short description, "" if `config` is enough
    #: its generation settings that Headlight does not follow, as `name=value`
    unused: tuple[str, ...] = ()
    stack: StackConfig | None = None  # shape and task of a model of one stack, else None
    #: content of metrics.json, {} without one
    metrics: Mapping[str, Any] = field(default_factory=dict, compare=False)
    history: History = field(default_factory=History, compare=False)  # its snapshots

    @property
    def ok(self) -> bool:
        """True if it looks loadable."""
        return self.error is None

    @property
    def kind(self) -> Kind:
        """Its format."""
        return self.ref.kind

    @property
    def path(self) -> Path:
        """Its folder or file, or a snapshot's `FOLDER@UPDATES`."""
        return self.ref.path

    @property
    def updates(self) -> int | None:
        """Updates of a snapshot; None if this is the model as stored."""
        return self.ref.updates

    @property
    def whole(self) -> str:
        """Name of the checkpoint that this is, or is a snapshot of."""
        return self.name if self.updates is None else split_name(self.name)[0]

    @property
    def relation(self) -> Literal["end", "further", "other", ""]:
        """Relation of the checkpoint to the run of its snapshots, "" if unknown.

        It is its "end", was trained "further" from there, or comes from an "other" run.
        """
        about, parts = self.history.about, self.metrics.get("earlier_parts")
        current = about.get("weights") == weights_digest(self.ref.folder)
        if current and about.get("end"):
            return "end"
        for part in parts if isinstance(parts, list) and "recipe" in about else ():
            run = (part.get("recipe"), part.get("updates")) if isinstance(part, dict) else ()
            if run == (about["recipe"], self.history.snapshots[-1].updates):
                return "further"
        return "other" if current else ""

    def after(self, updates: int | None) -> Entry:
        """Return the entry of a snapshot of this checkpoint, or this one for None.

        Raises: `CheckpointError` if the snapshot does not exist.
        """
        if updates is None:
            return self
        if updates not in [each.updates for each in self.history.snapshots]:
            raise CheckpointError(f"{self.name}: no snapshot after {updates:,} updates")
        return replace(self, name=at(self.name, updates), ref=self.ref.after(updates))


class ModelKind(Protocol):
    """A kind of models: a module of this package."""

    def fits(self, ref: ModelRef) -> bool:
        """Return True if the model is of this kind, judged by its content."""

    def describe(self, ref: ModelRef) -> Entry:
        """Describe a model without loading it.

        Raises: `CheckpointError`, one line with the file and what is wrong.
        """

    def open(self, ref: ModelRef, device: str) -> Tracer:
        """Load a model. Raises `CheckpointError`, and `InputError` for an unknown device."""


_IDENTITIES: FileCache[dict[str, Any]] = FileCache()


def identity(folder: Path) -> dict[str, Any] | None:
    """Return the keys of config.json that identify the format, or None if the file is missing."""
    path = folder / "config.json"
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None

    def read() -> dict[str, Any]:
        try:
            values = json_object(path)
        except CheckpointError:
            return {}
        return {name: values[name] for name in ("model_type", "task") if name in values}

    return _IDENTITIES.get(path, (status.st_size, status.st_mtime_ns), read)
