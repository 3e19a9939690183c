"""Models of Marian, JoeyNMT and fairseq, which must be imported first."""

from __future__ import annotations

from transformer.checkpoint.reference import ModelRef
from transformer.errors import CheckpointError
from transformer.models.entry import Entry, identity
from transformer.models.importers.registry import FORMATS, Format, unusable
from transformer.trace.tracer import Tracer

#: The model type of Marian, whose folders would pass for the library's own.
MARIAN = "marian"


def fits(ref: ModelRef) -> bool:
    """Return True for a Marian config, and for another format's files without a config.json.

    Also for what no format reads, such as a LoRA adapter, to say so.
    """
    values = identity(ref.folder)
    if ref.updates is not None:
        return False
    if _reason(ref):
        return True
    if values is None:
        return format_of(ref) is not None
    return values.get("model_type") == MARIAN


def format_of(ref: ModelRef) -> Format | None:
    """Return the format to import the folder from, None if it is of none."""
    values = identity(ref.folder) or {}
    if values.get("model_type") == MARIAN:
        return FORMATS[MARIAN]
    return next((each for each in FORMATS.values() if each.fits(ref.folder)), None)


def describe(ref: ModelRef) -> Entry:
    """Raise `CheckpointError` with the command that imports the model."""
    raise _import_first(ref)


def open(ref: ModelRef, device: str) -> Tracer:
    """Raise `CheckpointError` with the command that imports the model."""
    raise _import_first(ref)


def _reason(ref: ModelRef) -> str | None:
    """Return why a folder or file neither opens nor imports."""
    try:
        return unusable(ref.folder)
    except (OSError, ValueError):
        return None


def _import_first(ref: ModelRef) -> CheckpointError:
    if reason := _reason(ref):
        return CheckpointError(f"{ref}: {reason}")
    kind = format_of(ref)
    title, name = (kind.title, kind.name) if kind else ("another library's", "FORMAT")
    return CheckpointError(
        f"{ref}: this is a {title} model; import it first: "
        f"python -m transformer import {name} {ref} --out PATH"
    )
