"""Attention maps of one sentence, recorded by any program in an .npz file."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from transformer.arrays.archived import ArchivedTrace
from transformer.arrays.trace_file import describe_arrays
from transformer.checkpoint.reference import ModelRef
from transformer.models.entry import Entry

SUFFIX = ".npz"


def fits(ref: ModelRef) -> bool:
    """Return True for any file, and for a missing one with the suffix of arrays."""
    path = ref.folder
    with suppress(OSError, ValueError):  # not a path at all
        return path.is_file() or (path.suffix == SUFFIX and not path.is_dir())
    return False


def describe(ref: ModelRef) -> Entry:
    """Describe the maps in a file by its headers. Raises `CheckpointError`."""
    sizes = dict.fromkeys(map(_size, describe_arrays(ref.folder).values()))
    return Entry(ref.folder.name, ref, about=f"One recorded sentence: {'; '.join(sizes)}.")


def open(ref: ModelRef, device: str) -> ArchivedTrace:
    """Read a file; its sentence is on the CPU whatever the device."""
    return ArchivedTrace.load(ref.folder)


def _size(shape: Sequence[int]) -> str:
    layers = "1 layer" if shape[0] == 1 else f"{shape[0]} layers"
    return f"{layers}, {shape[1]} head{'' if shape[1] == 1 else 's'}"
