"""List and open models of every kind, which follows from their content.

A path, or the `PATH@UPDATES` of a snapshot, is resolved once into a `ModelRef`. Models that cannot
be opened are listed with the reason.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from transformer.checkpoint.folder import PARTS
from transformer.checkpoint.reference import Kind, ModelRef, split_name
from transformer.files.safe import MAX_CACHED, fingerprint, is_there, modified
from transformer.files.unread import listed
from transformer.models.arrays.trace_file import SUFFIX
from transformer.models.importers.registry import FORMATS
from transformer.models.kinds import KINDS, Entry
from transformer.trace.tracer import Tracer
from transformer.types import CheckpointError

__all__ = [
    "Entry", "Kind", "ModelRef", "find", "inspect_entry", "list_entries", "looks_like_model",
    "open_tracer",
]  # fmt: skip


def resolve(path: str | Path | ModelRef) -> ModelRef:
    """Return the reference to a model as it is on disk now: its kind and fingerprint."""
    ref = ModelRef.of(path)
    ref = replace(ref, mark=fingerprint(ref.folder))
    return replace(ref, kind=_kind_of(ref.edited(""), modified(ref.folder)))


@lru_cache(maxsize=MAX_CACHED)
def _kind_of(ref: ModelRef, time: int) -> Kind:
    del time  # part of the key
    return next(name for name, kind in KINDS.items() if kind.fits(ref))


def open_tracer(path: str | Path | ModelRef, device: str = "auto") -> Tracer:
    """Load a model of any kind.

    Args:
        path: a checkpoint folder, one of its snapshots (`PATH@UPDATES`), an .npz file, or a folder
            in Hugging Face format.

    Raises: `CheckpointError`, one line with the file and its fault, or with the command that
        imports the model; `InputError` for a device that does not exist.
    """
    return opened(resolve(path), device)


def opened(ref: ModelRef, device: str, stored: Tracer | None = None) -> Tracer:
    """Load a resolved model and apply its edits; see `open_tracer`.

    Args: stored: the model without edits, if it is already in memory.
    """
    tracer = stored or KINDS[ref.kind].open(ref.edited(""), device)
    return tracer.edited(ref.edits) if ref.edits else tracer


def inspect_entry(path: str | Path | ModelRef) -> Entry:
    """Describe one model as it is on disk now, without loading it."""
    return describe(resolve(path))


def describe(ref: ModelRef) -> Entry:
    """Describe a resolved model, from a cache if its files have not changed."""
    entry = _entry_of(ref.edited(""))
    return replace(entry, ref=ref) if ref.edits else entry


@lru_cache(maxsize=MAX_CACHED)
def _entry_of(ref: ModelRef) -> Entry:
    try:
        return KINDS[ref.kind].describe(ref)
    except CheckpointError as error:
        return Entry(ref.name, ref, error=str(error))


def list_entries(
    roots: Iterable[Path], check: Callable[[Path], object] | None = None
) -> list[Entry]:
    """List the models directly under the roots by name, with the reason if they cannot be used.

    If roots share a name, the first counts. Only configs, tokenizers and headers are read. A
    missing root is empty.

    Args: check: called before a path is read; a `CheckpointError` prevents the reading.
    """
    entries: dict[str, Entry] = {}
    for root in roots:
        try:
            paths = sorted(root.iterdir())
        except (OSError, ValueError):
            continue
        for path in paths:
            if path.name in entries or path.name.startswith("."):
                continue
            try:
                if check is not None:
                    check(path)
            except CheckpointError as error:
                if path.is_symlink() or looks_like_model(path):
                    entries[path.name] = Entry(path.name, ModelRef(path), error=str(error))
                continue
            if looks_like_model(path):
                # A link keeps its own name.
                entries[path.name] = replace(inspect_entry(path), name=path.name)
    return [entries[name] for name in sorted(entries)]


def find(entries: Mapping[str, Entry], name: str) -> Entry | None:
    """Return the entry named `NAME`, or of its snapshot `NAME@UPDATES`, or None."""
    if name in entries:
        return entries[name]
    whole, updates = split_name(name)
    with suppress(CheckpointError):
        return entries[whole].after(updates) if whole in entries else None
    return None


def looks_like_model(path: Path) -> bool:
    """Return True for a folder or file of a model or of maps, judged by file names."""
    try:
        if not path.is_dir():
            return path.is_file() and (path.suffix == SUFFIX or listed(path))
        ours = any(is_there(path / part) for part in PARTS)
        return ours or listed(path) or any(kind.fits(path) for kind in FORMATS.values())
    except OSError:
        return False
