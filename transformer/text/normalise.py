"""Text preparation before segmentation, and its reversal after decoding.

Many models from elsewhere were trained on lower-cased text, or on text tokenised by the Moses
scripts: punctuation separated by spaces, quotation marks and apostrophes escaped as in XML.
"""

import dataclasses
import importlib.util
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

from transformer.text.tokenizer import TokenizerError

#: A Moses language code; nothing else may become part of a file name.
LANGUAGE = re.compile(r"[a-z]{2,3}", re.ASCII)

#: Straight quotes for curly ones, which NFKC does not change.
_QUOTES = str.maketrans({"\u2019": "'", "\u201c": '"', "\u201d": '"'})


@dataclass(frozen=True)
class Preparation:
    """Preparation steps, applied in this order."""

    # NFKC, straight quotes, no space before `? ! , . :`; `undo` also removes these spaces.
    normalise: bool = False
    normalise_punctuation: bool = False  # also by the Moses rules
    moses: str | None = None  # language for the Moses rules on words and punctuation, or None
    dash_splits: bool = False  # also split words at hyphens, written `@-@`
    escape: bool = True  # write `& | < > ' " [ ]` as XML and Moses do
    lowercase: bool = False

    def __post_init__(self) -> None:
        for name in ("normalise", "normalise_punctuation", "dash_splits", "escape", "lowercase"):
            if not isinstance(getattr(self, name), bool):
                raise TokenizerError(f"{name}={getattr(self, name)!r} is not true or false")
        if self.moses is None:
            return
        if not isinstance(self.moses, str) or not LANGUAGE.fullmatch(self.moses):
            raise TokenizerError(f"moses={self.moses!r} is not a language such as 'en'")
        if importlib.util.find_spec("sacremoses") is None:
            raise TokenizerError("needs sacremoses: pip install .[evaluate]")

    def __call__(self, text: str) -> str:
        """Prepare a text; by default it stays unchanged."""
        if self.normalise:
            text = _closed_up(unicodedata.normalize("NFKC", text).translate(_QUOTES))
        if self.moses is not None and text:
            if self.normalise_punctuation:
                text = _moses("PunctNormalizer", self.moses).normalize(text)
            text = _moses("Tokenizer", self.moses).tokenize(
                text, aggressive_dash_splits=self.dash_splits, escape=self.escape, return_str=True
            )
        return text.lower() if self.lowercase else text

    def undo(self, text: str) -> str:
        """Reverse the preparation in decoded text."""
        if self.moses is not None and text:
            text = _moses("Detokenizer", self.moses).detokenize(text.split())
        return _closed_up(text) if self.normalise else text

    def settings(self) -> dict[str, Any]:
        """Return the settings that differ from the defaults, for JSON."""
        values, defaults = dataclasses.asdict(self), dataclasses.asdict(Preparation())
        return {name: value for name, value in values.items() if value != defaults[name]}

    @classmethod
    def of(cls, settings: object) -> Self:
        """Parse the result of `settings`. Raises `TokenizerError` for anything else."""
        names = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(settings, Mapping) or not names.issuperset(settings):
            raise TokenizerError(f"unknown preparation setting; known: {', '.join(sorted(names))}")
        return cls(**settings)


def _closed_up(text: str) -> str:
    """Collapse spaces, and remove them before closing punctuation."""
    text = re.sub("[ \u3000]+", " ", text.replace("\u200b", ""))
    return re.sub(r" ([?!,.:])", r"\1", text).strip()


# Cached: construction reads abbreviation lists and compiles expressions. Tools have no state.
@lru_cache(maxsize=24)
def _moses(tool: str, language: str) -> Any:
    return getattr(importlib.import_module("sacremoses"), f"Moses{tool}")(lang=language)
