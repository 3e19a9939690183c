"""Languages of a model, read from its files or from the loaded model."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache

from transformer.config import parse_json
from transformer.files.safe import MAX_TABLE, is_there, read_small
from transformer.models.catalogue import Entry, ModelRef
from transformer.text.layout import TABLE_FILE
from transformer.text.table import tags_among
from ui.core.languages import Languages, label_of, name_of
from ui.work.desk import load_for_visit
from ui.work.models import REFUSALS

#: Default languages in order of preference, if neither a link nor the model sets one.
_SOURCES, _TARGETS = ("English",), ("German", "French", "English")


def languages_of(entry: Entry, device: str) -> Languages:
    """Return a model's languages; a model of the `transformers` library is loaded for that."""
    if entry.kind == "checkpoint":
        return _tagged(entry.ref)
    if entry.kind != "huggingface":
        return Languages()
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
    """Return the code of the first of these languages, else the first code."""
    found = (each for name in names for each in codes if name_of(each) == name)
    return next(iter((*found, *codes, "")))


@lru_cache(maxsize=32)
def _tagged(ref: ModelRef) -> Languages:
    """Return the languages that a checkpoint's vocabulary has tags for, by name."""
    table, tags = ref.folder / TABLE_FILE, tuple[str, ...]()
    # `ValueError` is also a `CheckpointError`, which the page reports when it loads the model.
    with suppress(ValueError):
        pieces = parse_json(read_small(table, MAX_TABLE)) if is_there(table) else None
        tags = tuple(tags_among(pieces)) if isinstance(pieces, list) else ()
    tags = tuple(sorted(tags, key=label_of))
    return Languages((), tags, "", _first(tags, _TARGETS), tagged=bool(tags))
