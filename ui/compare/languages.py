"""The language that each side writes, and the warning if B reads A's text in another one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from figures.markdown import code
from transformer.catalogue import Entry
from transformer.errors import CheckpointError
from transformer.files.safe import read_small
from ui.compare.choice import Setup, can_follow
from ui.core.view import View
from ui.models.rows import LANGUAGES, card_path

#: A language in a recipe or a name: "de", "deu", "de_DE", "deu_Latn".
_CODE = re.compile(r"[a-z]{2,3}(?:[_-][A-Za-z]{2,4})?")

#: The first line of a card of this project, "en to de: 4+4 layers".
_CARD = re.compile(r"^An encoder-decoder Transformer, (\S{2,8}) to (\S{2,8}):", re.MULTILINE)

#: Marian's names: opus-mt-en-de, opus-mt-tc-big-en-fr.
_MARIAN = re.compile(r"opus-mt(?:-tc-(?:big|base))?-([a-z]{2,3})-([a-z]{2,3})\b")

#: Characters read of a card.
_MOST_CHARACTERS = 2_000


def target_language(view: View) -> str | None:
    """Return the language that the view's model writes, such as "de"; None if unknown."""
    if view.kind != "checkpoint":
        return None
    entry = view.entry
    said = _of_recipe(entry.metrics) or _of_card(entry) or _of_import(entry)
    return re.split("[_-]", said)[0] if said else None


def warning(setup: Setup) -> str:
    """Return a warning if B would read A's text as its own in another language, else ""."""
    if not can_follow(setup.right):
        return ""
    here, there = target_language(setup.left), target_language(setup.right)
    if here is None or there is None or here == there:
        return ""
    return (
        f"A writes {_named(here)} and B was trained to write {_named(there)}. Following A, B reads "
        f"{_named(here)} as if it were its own translation, so its numbers say little."
    )


def _of_recipe(metrics: Mapping[str, Any]) -> str | None:
    """The recipe's target language; reversing letters has none."""
    found: Any = metrics
    for name in ("training", "recipe", "data"):
        found = found.get(name) if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping) or "reversal" in (found.get("corpora") or ()):
        return None
    return _language(found.get("tgt"))


def _of_card(entry: Entry) -> str | None:
    path = card_path(entry)
    if path is None:
        return None
    try:
        text = read_small(path)[:_MOST_CHARACTERS].decode("utf-8", "replace")
    except CheckpointError:
        return None
    found = _CARD.search(text)
    return _language(found[2]) if found else None


def _of_import(entry: Entry) -> str | None:
    """The language in the name of the imported model."""
    imported = entry.metrics.get("imported")
    source = imported.get("source") if isinstance(imported, Mapping) else None
    found = _MARIAN.search(source) if isinstance(source, str) else None
    return _language(found[2]) if found else None


def _language(said: object) -> str | None:
    return said if isinstance(said, str) and _CODE.fullmatch(said) else None


def _named(language: str) -> str:
    return LANGUAGES.get(language) or code(language)
