"""Models of Marian, JoeyNMT and fairseq, which must be imported first."""

from typing import NoReturn

from transformer.checkpoint.reference import ModelRef
from transformer.files.unread import unread
from transformer.models.entry import identity
from transformer.models.importers.registry import FORMATS, Format
from transformer.types import CheckpointError

#: Marian's model type, which the `transformers` library would open, too.
MARIAN = "marian"


def fits(ref: ModelRef) -> bool:
    """Return True for a Marian config, and for another format's files without a config.json.

    It also accepts folders that no format reads, such as a LoRA adapter, to explain why.
    """
    if ref.updates is not None:
        return False
    if unread(ref.folder):
        return True
    values = identity(ref.folder)
    if values is None:
        return format_of(ref) is not None
    return values.get("model_type") == MARIAN


def format_of(ref: ModelRef) -> Format | None:
    """Return the format that imports the folder, or None."""
    if (identity(ref.folder) or {}).get("model_type") == MARIAN:
        return FORMATS[MARIAN]
    return next((kind for kind in FORMATS.values() if kind.fits(ref.folder)), None)


def describe(ref: ModelRef) -> NoReturn:
    """Raise `CheckpointError` with the command that imports the model."""
    if reason := unread(ref.folder):
        raise CheckpointError(f"{ref}: {reason}")
    kind = format_of(ref)
    title, name = (kind.title, kind.name) if kind else ("another library's", "FORMAT")
    raise CheckpointError(
        f"{ref}: this is a {title} model; import it first: "
        f"python -m transformer import {name} {ref} --out PATH"
    )


def open(ref: ModelRef, device: str) -> NoReturn:
    """Raise `CheckpointError` with the command that imports the model."""
    describe(ref)
