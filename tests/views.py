"""Views of checkpoints without the sidebar."""

from pathlib import Path
from typing import Any

from transformer.models.catalogue import inspect_entry
from ui.core.view import View
from ui.frame.sidebar import languages_of


def make_view(path: Path, sentence: str = "A dog runs.", **more: Any) -> View:
    entry = inspect_entry(path)
    return View(entry, "cpu", sentence, languages=languages_of(entry, "cpu"), **more)
