"""Encoder-decoders in this project's format, and folders of no other kind."""

from transformer.checkpoint.folder import check_checkpoint, read_metrics
from transformer.checkpoint.reference import ModelRef
from transformer.checkpoint.snapshots import readable_history
from transformer.models.entry import Entry
from transformer.translator import Translator


def fits(ref: ModelRef) -> bool:
    """Return True: errors of this kind name the missing files of a folder."""
    return True


def describe(ref: ModelRef) -> Entry:
    """Describe a checkpoint without reading its weights. Raises `CheckpointError`."""
    config, folder = check_checkpoint(ref), ref.folder
    metrics = read_metrics(folder)
    origin = metrics.get("imported")
    unused = origin.get("unused") if isinstance(origin, dict) else None
    return Entry(
        ref.name, ref, config, config.n_numbers, metrics=metrics, history=readable_history(folder),
        unused=tuple(map(str, unused)) if isinstance(unused, list) else (),
    )  # fmt: skip


def open(ref: ModelRef, device: str) -> Translator:
    """Load a checkpoint or a snapshot."""
    return Translator.load(ref, device)
