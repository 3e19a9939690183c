"""Model languages, their names, and their codes for the model.

Models of the `transformers` library take a source and a target language. Multilingual Marian models
take a tag before the sentence (`>>deu<<`), which may also be typed. One language has several codes
(`de`, `deu`, `deu_Latn`, `de_DE`): ISO 639, optionally with a script or country. An individual
language is listed with its macrolanguage (`arb` with `ara`, `lvs` with `lav`).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from transformer.text.table import split_tag
from transformer.text.tokenizer import clean

#: No tag: the model reads the sentence as typed.
NO_TAG = "none"

#: Shortest code and name.
_BY_CODE = {
    code: (codes.partition(" ")[0], name)
    for codes, _, name in (
        line.partition("\t")
        for line in Path(__file__).with_name("language_names.tsv").read_text("utf-8").splitlines()
        if not line.startswith("#")
    )
    for code in codes.split()
}


@dataclass(frozen=True)
class Languages:
    """A model's languages; empty if it takes no language codes."""

    #: sources, targets: language codes, sorted by name
    sources: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    #: source, target: default codes, or ""
    source: str = ""
    target: str = ""
    tagged: bool = False  # a tag before the sentence names the target language

    def resolve(
        self, sentence: str, source: str, target: str
    ) -> tuple[str, str | None, str | None]:
        """Return the sentence and language codes for the model.

        Args:
            sentence: as typed.
            source, target: chosen codes, or "". They are mapped to this model's codes (`de` to
                `deu_Latn`); an unknown language becomes the default.
        """
        chosen = nearest_code(self.targets, target) or self.target
        if self.tagged:
            if target == NO_TAG or not clean(sentence) or typed_tag(sentence):
                return sentence, None, None
            return f">>{chosen}<< {sentence}", None, None
        spoken = nearest_code(self.sources, source) or self.source
        return sentence, spoken or None, chosen or None


def typed_tag(sentence: str) -> str:
    """Return the sentence's leading language tag, or ""."""
    return split_tag(sentence)[0]


def nearest_code(codes: Sequence[str], language: str) -> str:
    """Return the code among `codes` for the same language, or ""."""
    if not language or language in codes:
        return language
    return next((code for code in codes if name_of(code) == name_of(language) != language), "")


def name_of(code: str) -> str:
    """Return the language name, or the code if it is unknown."""
    return _BY_CODE.get(_base(code), ("", code))[1]


def tag_of(code: str) -> str:
    """Return the code for `lang` attributes, `de` for `deu_Latn`, or "" if it is unknown."""
    return _BY_CODE.get(_base(code), ("", ""))[0]


def _base(code: str) -> str:
    return re.split(r"[_\-@]", code, maxsplit=1)[0].lower()


def label_of(code: str) -> str:
    """Return name and code: `German · deu_Latn`."""
    name = name_of(code)
    return code if name == code else f"{name} · {code}"
