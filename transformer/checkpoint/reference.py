"""References to models on disk: a path, or the `PATH@UPDATES` of a snapshot, resolved once."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, Self

from transformer.files.safe import is_folder, is_there

#: Separator between a checkpoint's path and a snapshot's updates.
SIGN = "@"

#: Snapshot file of a checkpoint.
SNAPSHOTS = "snapshots.npz"

#: Maximum number of a snapshot's updates.
MAX_UPDATES = 10**9

#: "checkpoint" is this project's format, "one_stack" its format for models with one stack;
#: "foreign" models must be imported first.
Kind = Literal["checkpoint", "one_stack", "archive", "huggingface", "foreign"]


@dataclass(frozen=True)
class ModelRef:
    """A model on disk."""

    folder: Path  # its folder, or its file of arrays
    updates: int | None = None  # a snapshot's updates; the stored model has None
    kind: Kind = "checkpoint"  # its format
    mark: str = ""  # `fingerprint` of its files when the reference was resolved, otherwise ""
    edits: str = ""  # applied to the model, as `transformer.edits.language.text_of` writes them

    @classmethod
    def of(cls, path: str | Path | Self) -> Self:
        """Split `PATH@UPDATES` without resolving kind and mark.

        An existing folder of the whole name, sign included, takes precedence.
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
        """`FOLDER` or `FOLDER@UPDATES`."""
        if self.updates is None:
            return self.folder
        return self.folder.with_name(at(self.folder.name, self.updates))

    @cached_property
    def name(self) -> str:
        """Folder name, followed by a snapshot's updates."""
        try:
            return at(self.folder.resolve().name, self.updates)
        except (OSError, ValueError, RuntimeError):
            return self.path.name

    def after(self, updates: int | None) -> Self:
        """Return a reference to a snapshot, or to the stored model if `updates` is None."""
        return replace(self, updates=updates)

    def edited(self, edits: str) -> Self:
        """Return a reference to this model with other edits; "" removes them."""
        return replace(self, edits=edits)

    def __str__(self) -> str:
        return str(self.path)


def split_name(name: str) -> tuple[str, int | None]:
    """Split `NAME@UPDATES`; the updates are None unless written as by `at`."""
    stem, _, digits = name.rpartition(SIGN)
    if not stem or len(digits) > 10 or not (digits.isascii() and digits.isdecimal()):
        return name, None
    updates = int(digits)
    plain = str(updates) == digits and updates <= MAX_UPDATES
    return (stem, updates) if plain else (name, None)


def at(name: str, updates: int | None) -> str:
    """Return a snapshot's name, or the checkpoint's if `updates` is None."""
    return name if updates is None else f"{name}{SIGN}{updates}"
