"""Attention maps of one sentence, written by any program to an .npz file."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from transformer.checkpoint.reference import ModelRef
from transformer.models.arrays.maps import MAX_TOKENS
from transformer.models.arrays.trace_file import describe_arrays, load_arrays
from transformer.models.entry import Entry
from transformer.trace.records import Trace
from transformer.trace.tracer import Unedited
from transformer.types import ATTENTION_KINDS, AttentionKind, InputError

SUFFIX = ".npz"


@dataclass(frozen=True, eq=False)
class ArchivedTrace(Unedited):
    """One sentence recorded elsewhere."""

    cases = ("archive",)
    name: str  # file name
    record: Trace  # trace in the file
    device: str = "cpu"
    max_tokens: int = MAX_TOKENS

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read an .npz file. Raises `CheckpointError`, see `load_arrays`."""
        return cls(Path(path).name, load_arrays(path))

    @property
    def kinds(self) -> tuple[AttentionKind, ...]:
        """Kinds of maps in the file."""
        return tuple(kind for kind in ATTENTION_KINDS if self.record.attention(kind).size)

    @property
    def sentence(self) -> str:
        """Source sentence in the file."""
        return self.record.source

    def trace(self, sentence: str, target: str | None = None, **options: Any) -> Trace:
        """Return the record. Raises `InputError` for any other sentence, a target or edits."""
        self.refuse_edits(options.get("edits"))
        if sentence != self.sentence:
            raise InputError(f"{self.name} holds one sentence, which is not this one")
        if target is not None:
            raise InputError(
                f"{self.name} holds one sentence with its translation; no other can be given"
            )
        return self.record


def fits(ref: ModelRef) -> bool:
    """Return True for any file, and for a missing file with this suffix."""
    path = ref.folder
    with suppress(OSError, ValueError):  # not a valid path
        return path.is_file() or (path.suffix == SUFFIX and not path.is_dir())
    return False


def describe(ref: ModelRef) -> Entry:
    """Describe the maps in a file from its headers. Raises `CheckpointError`."""
    shapes = describe_arrays(ref.folder).values()
    about = f"One recorded sentence: {'; '.join(dict.fromkeys(map(_size, shapes)))}."
    return Entry(ref.folder.name, ref, n_numbers=sum(map(math.prod, shapes)), about=about)


def open(ref: ModelRef, device: str) -> ArchivedTrace:
    """Read a file, always to the CPU."""
    return ArchivedTrace.load(ref.folder)


def _size(shape: Sequence[int]) -> str:
    layers = "1 layer" if shape[0] == 1 else f"{shape[0]} layers"
    return f"{layers}, {shape[1]} head{'' if shape[1] == 1 else 's'}"
