"""Entries of a catalogue: models on disk, described without loading them."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Protocol, Self

from transformer.checkpoint.reference import Kind, ModelRef, at, split_name
from transformer.checkpoint.snapshots import History
from transformer.checkpoint.weights import weights_digest
from transformer.config import ModelConfig
from transformer.errors import CheckpointError
from transformer.files.safe import MAX_CACHED, json_object
from transformer.models.one_stack.config import StackConfig
from transformer.trace.tracer import Tracer


@dataclass(frozen=True)
class Entry:
    """A model on disk, which may fail to open."""

    name: str  # folder or file name; a snapshot's ends in its updates
    ref: ModelRef  # path, kind, and fingerprint of its files
    config: ModelConfig | None = None  # shape, if an encoder-decoder of this project
    n_numbers: int = 0  # numbers in memory once loaded, 0 if unknown
    error: str | None = None  # why it cannot be opened, in one line
    about: str = ""  # short description, "" if `config` is enough
    unused: tuple[str, ...] = ()  # generation settings without effect here, as `name=value`
    stack: StackConfig | None = None  # shape and task, if a model with one stack
    metrics: Mapping[str, Any] = field(default_factory=dict, compare=False)  # in metrics.json
    # Texts that the model was trained to read before its input, by task, as of T5.
    prefixes: Mapping[str, str] = field(default_factory=dict, compare=False)
    history: History = field(default_factory=History, compare=False)  # snapshots

    @property
    def ok(self) -> bool:
        """True if no fault is known."""
        return self.error is None

    @property
    def kind(self) -> Kind:
        """Kind of model."""
        return self.ref.kind

    @property
    def path(self) -> Path:
        """Folder or file, or `FOLDER@UPDATES` of a snapshot."""
        return self.ref.path

    @property
    def updates(self) -> int | None:
        """Updates of a snapshot, or None for the model itself."""
        return self.ref.updates

    @property
    def whole(self) -> str:
        """Checkpoint name without the updates of a snapshot."""
        return self.name if self.updates is None else split_name(self.name)[0]

    def prefixed(self, sentence: str, task: str) -> str:
        """Return a sentence after a prefix, unless it is blank or begins with one of the model's.

        Args: task: a key of `prefixes`, or a text; "" adds nothing.
        """
        if not sentence.strip() or sentence.startswith(tuple(self.prefixes.values())):
            return sentence
        known = {text.strip(): text for text in self.prefixes.values()} | dict(self.prefixes)
        return known.get(task.strip(), task) + sentence

    def lacks_prefix(self, sentence: str) -> str:
        """Return a note if a model trained with prefixes reads a sentence without one, or ""."""
        texts = tuple(self.prefixes.values())
        if not texts or not sentence.strip() or sentence.startswith(texts):
            return ""
        example = next((text for text in texts if text.startswith("translate")), texts[0])
        return f"This model was trained with a task prefix, such as “{example}”"

    @property
    def relation(self) -> Literal["end", "further", "other", ""]:
        """Relation of the checkpoint to the run of its snapshots, or "" if unknown.

        It is the "end" of this run, was trained "further", or comes from an "other" run.
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

    def after(self, updates: int | None) -> Self:
        """Return the entry of a snapshot, or this entry for None.

        Raises: `CheckpointError` if the snapshot does not exist.
        """
        if updates is None:
            return self
        if updates not in [snapshot.updates for snapshot in self.history.snapshots]:
            raise CheckpointError(f"{self.name}: no snapshot after {updates:,} updates")
        return replace(self, name=at(self.name, updates), ref=self.ref.after(updates))


class ModelKind(Protocol):
    """A module of this package that opens one kind of models."""

    def fits(self, ref: ModelRef) -> bool:
        """Return True if the content of a model is of this kind."""

    def describe(self, ref: ModelRef) -> Entry:
        """Describe a model without loading it.

        Raises: `CheckpointError`, one line with the file and its fault.
        """

    def open(self, ref: ModelRef, device: str) -> Tracer:
        """Load a model. Raises `CheckpointError`, and `InputError` for an unknown device."""


def identity(folder: Path) -> dict[str, Any] | None:
    """Return the format's keys in config.json, or None if the file is missing."""
    path = folder / "config.json"
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return _identity(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=MAX_CACHED)
def _identity(path: Path, *version: int) -> dict[str, Any]:
    with suppress(CheckpointError):
        values = json_object(path)
        return {name: values[name] for name in ("model_type", "task") if name in values}
    return {}
