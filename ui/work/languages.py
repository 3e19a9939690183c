"""Answers from a model's files or the loaded model: languages, recorded sentence, task."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from transformer.config import parse_json
from transformer.files.safe import MAX_TABLE, is_there, read_small
from transformer.models.arrays.trace_file import ArchivedTrace
from transformer.models.catalogue import Entry
from transformer.text.layout import TABLE_FILE
from transformer.text.table import tags_among
from ui.core.languages import Languages, label_of, name_of
from ui.work.desk import load_for_visit
from ui.work.results import REFUSALS

#: Preferred languages if neither a link nor the model sets one.
_SOURCES, _TARGETS = ("English",), ("German", "French", "English")


def spoken_by(entry: Entry, device: str) -> Languages:
    """Return the languages of a model of the `transformers` library, which is loaded."""
    from transformer.models.huggingface.model import HuggingFaceModel

    try:
        model = load_for_visit(entry, device)
    except REFUSALS:
        return Languages()
    if not isinstance(model, HuggingFaceModel) or not model.languages:
        return Languages()
    codes = tuple(sorted(model.languages, key=label_of))
    source, target = model.resolve_languages()
    source = source or _first(codes, _SOURCES)
    return Languages(codes, codes if target else (), source, target or "")


def _first(codes: Sequence[str], names: Sequence[str]) -> str:
    """Return the first code with one of these names, or the first code."""
    matches = (code for name in names for code in codes if name_of(code) == name)
    return next(iter((*matches, *codes, "")))


def tagged(folder: Path) -> Languages:
    """Return the languages with tags in a checkpoint's vocabulary."""
    table, tags = folder / TABLE_FILE, tuple[str, ...]()
    # The page reports `CheckpointError`, a `ValueError`, when it loads the model.
    with suppress(ValueError):
        pieces = parse_json(read_small(table, MAX_TABLE)) if is_there(table) else None
        tags = tuple(tags_among(pieces)) if isinstance(pieces, list) else ()
    tags = tuple(sorted(tags, key=label_of))
    return Languages((), tags, "", _first(tags, _TARGETS), tagged=bool(tags))


def recorded_sentence(entry: Entry) -> str | None:
    """Return the sentence in a file of arrays, or None if it cannot be read."""
    try:
        archive = load_for_visit(entry, "cpu")
    except REFUSALS:
        return None
    return archive.sentence if isinstance(archive, ArchivedTrace) else None


def writes(entry: Entry, device: str) -> bool:
    """Return True if an entry's model can be loaded and translates."""
    if entry.stack is not None:
        return entry.stack.task == "translate"
    try:
        return "cross" in load_for_visit(entry, device).kinds
    except REFUSALS:
        return False
