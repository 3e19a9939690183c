"""References to models on disk: a path, or the `PATH@UPDATES` of a snapshot, resolved once."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Literal

from transformer.files.safe import is_folder, is_there

#: Between a checkpoint's path and the updates of one of its snapshots.
SIGN = "@"

#: File of a checkpoint's snapshots.
SNAPSHOTS = "snapshots.npz"

#: Limit for the number that names a snapshot.
MAX_UPDATES = 10**9

#: "checkpoint" is this project's format, and "one_stack" that of its models of one stack;
#: "foreign" must be imported first.
Kind = Literal["checkpoint", "one_stack", "archive", "huggingface", "foreign"]

#: Files whose change makes a folder another model, and the maximum number looked at.
_COUNTED = (".json", ".safetensors", ".bin", ".model", ".spm", ".txt", ".pt", ".npz")
_MOST_COUNTED = 200


@dataclass(frozen=True)
class ModelRef:
    """A model on disk."""

    folder: Path  # its folder, or its file of arrays
    updates: int | None = None  # of one of its snapshots, None for the model as it is stored
    kind: Kind = "checkpoint"  # its format
    mark: str = ""  # `fingerprint` of its files when the reference was resolved, "" if not resolved
    edits: str = ""  # what is taken out of it, as `transformer.edits.language.text_of` writes it

    @classmethod
    def of(cls, path: str | Path | ModelRef) -> ModelRef:
        """Split `PATH@UPDATES`; kind and mark remain to be resolved.

        A folder that exists under the whole name, sign included, is that folder.
        """
        if isinstance(path, ModelRef):
            return path
        path = Path(path)
        name, updates = split_name(path.name)
        if updates is None or is_there(path):
            return cls(path)
        folder = path.with_name(name)
        return cls(folder, updates) if is_folder(folder) else cls(path)

    @property
    def path(self) -> Path:
        """The path that names it: `FOLDER` or `FOLDER@UPDATES`."""
        if self.updates is None:
            return self.folder
        return self.folder.with_name(at(self.folder.name, self.updates))

    @cached_property
    def name(self) -> str:
        """Name of the folder, followed by the updates of a snapshot."""
        try:
            return at(self.folder.resolve().name, self.updates)
        except (OSError, ValueError, RuntimeError):
            return self.path.name

    def after(self, updates: int | None) -> ModelRef:
        """Return the reference to a snapshot, or to the model as it is stored for None."""
        return replace(self, updates=updates)

    def edited(self, edits: str) -> ModelRef:
        """Return the reference to the same model with other edits, "" for none."""
        return replace(self, edits=edits)

    def __str__(self) -> str:
        return str(self.path)


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


def fingerprint(path: Path) -> str:
    """Return a text that changes whenever a file of a model does: name, size, time or inode."""
    statuses: list[tuple[str, os.stat_result]] = []
    with suppress(OSError, ValueError):  # absent, or no path at all
        try:
            with os.scandir(path) as files:
                counted = [(each.name, each) for each in files if each.name.endswith(_COUNTED)]
        except NotADirectoryError:
            statuses.append((path.name, path.stat()))
        else:
            for name, file in sorted(counted, key=itemgetter(0))[:_MOST_COUNTED]:
                with suppress(OSError):
                    statuses.append((name, file.stat()))
    return " ".join(
        f"{name}:{status.st_size}:{status.st_mtime_ns}:{status.st_ino}" for name, status in statuses
    )
