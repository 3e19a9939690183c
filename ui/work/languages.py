"""Languages of models that know many: what the sidebar offers, and what the model is told.

Models of the `transformers` library take a source and a target language. Marian models of several
target languages take a tag in front of the sentence (`>>deu<<`), which may also be typed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch

from transformer.catalogue import Kind, mark_of
from transformer.errors import CheckpointError
from transformer.files.safe import is_there, read_small
from transformer.text.layout import TABLE_FILE
from transformer.text.table import split_tag, tags_among
from transformer.text.tokenizer import clean
from ui.core.language_names import label_of, name_of
from ui.work.models import tracer

#: Chosen in place of a tag: the sentence goes as it is typed.
NONE = "none"
#: Taken in this order where neither a link nor the model says which.
_SOURCES, _TARGETS = ("English",), ("German", "French", "English")


@dataclass(frozen=True)
class Offered:
    """The languages of a model; empty where it is not told any.

    Attributes:
        sources, targets: their codes, by name.
        source, target: the codes where nobody says, "" where there is no choice.
        tagged: the target is said by a tag in front of the sentence.
    """

    sources: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    source: str = ""
    target: str = ""
    tagged: bool = False


def offered(path: Path, device: str, kind: Kind) -> Offered:
    """What a model can be told; a model of the `transformers` library is loaded for that."""
    if kind == "checkpoint":
        tags = _tags(str(path), mark_of(path))
        return Offered((), tags, "", _first(tags, _TARGETS), tagged=bool(tags))
    if kind != "huggingface":
        return Offered()
    from transformer.huggingface.model import HuggingFaceModel

    try:
        model = tracer(path, device)
    except (CheckpointError, MemoryError, torch.OutOfMemoryError):
        return Offered()
    if not isinstance(model, HuggingFaceModel) or not model.languages:
        return Offered()
    codes = tuple(sorted(model.languages, key=label_of))
    source, target = model.spoken()
    source = source or _first(codes, _SOURCES)
    return Offered(codes, codes if target else (), source, target or "")


def told(
    path: Path, device: str, kind: Kind, sentence: str, source: str, target: str
) -> tuple[str, str | None, str | None]:
    """The sentence and the languages that a model is given where these are chosen.

    Another model may call a language otherwise (`de`, `deu_Latn`); what it lacks is its default.
    Needs no session.
    """
    if not (source or target):
        return sentence, None, None
    found = offered(path, device, kind)
    chosen = _nearest(found.targets, target) or found.target
    if found.tagged:
        if target == NONE or not clean(sentence) or typed_tag(sentence):
            return sentence, None, None
        return f">>{chosen}<< {sentence}", None, None
    return sentence, _nearest(found.sources, source) or found.source or None, chosen or None


def typed_tag(sentence: str) -> str:
    """The tag that a sentence says itself, "" for none."""
    return split_tag(clean(sentence))[0]


def _nearest(codes: Sequence[str], asked: str) -> str:
    """The code asked for, or the one of the same language; "" where there is neither."""
    if not asked or asked in codes:
        return asked
    name = name_of(asked)
    return next((each for each in codes if name_of(each) == name != asked), "")


def _first(codes: Sequence[str], names: Sequence[str]) -> str:
    """The code of the first of these languages, else the first code."""
    found = (each for name in names for each in codes if name_of(each) == name)
    return next(iter((*found, *codes, "")))


@lru_cache(maxsize=32)
def _tags(path: str, mark: str) -> tuple[str, ...]:
    """The languages that a checkpoint's vocabulary has tags for, by name."""
    table = Path(path) / TABLE_FILE
    if not is_there(table):
        return ()
    try:
        pieces = json.loads(read_small(table))
    except ValueError:  # also a `CheckpointError`; the page says it when the model is loaded
        return ()
    named = tags_among(pieces) if isinstance(pieces, list) else ()
    return tuple(sorted(named, key=label_of))
