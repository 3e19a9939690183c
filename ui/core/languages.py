"""The languages that a model takes, their names, and the way a choice is passed to the model.

Models of the `transformers` library take a source and a target language, Marian models of several
target languages a tag before the sentence (`>>deu<<`), which may also be typed. The same language
is `de`, `deu`, `deu_Latn`, `de_DE` or `>>deu<<`: two or three letters of ISO 639, perhaps with a
script or a country. An individual language is listed with the group that other models name instead
(`arb` with `ara`, `lvs` with `lav`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from transformer.text.table import split_tag
from transformer.text.tokenizer import clean

#: The choice of no tag: the sentence is passed on as typed.
NO_TAG = "none"

_BY_CODE = {
    code: name
    for codes, _, name in (
        line.partition("\t")
        for line in Path(__file__).with_name("language_names.tsv").read_text("utf-8").splitlines()
        if not line.startswith("#")
    )
    for code in codes.split()
}


@dataclass(frozen=True)
class Languages:
    """The languages of a model. Empty if it takes no language code."""

    #: sources, targets: their codes, by name
    sources: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    #: source, target: default codes, "" if there is no choice
    source: str = ""
    target: str = ""
    tagged: bool = False  # whether a tag before the sentence names the target

    def resolve(
        self, sentence: str, source: str, target: str
    ) -> tuple[str, str | None, str | None]:
        """Return the sentence and the language codes to give to the model.

        Args:
            sentence: as typed.
            source, target: the codes chosen, "" for none. A language may have another code here
                than where it was chosen (`de`, `deu_Latn`); an unknown one becomes the default.
        """
        chosen = nearest_code(self.targets, target) or self.target
        if self.tagged:
            if target == NO_TAG or not clean(sentence) or typed_tag(sentence):
                return sentence, None, None
            return f">>{chosen}<< {sentence}", None, None
        known = nearest_code(self.sources, source) or self.source
        return sentence, known or None, chosen or None


def typed_tag(sentence: str) -> str:
    """Return the language tag that a sentence begins with, "" without one."""
    return split_tag(sentence)[0]


def nearest_code(codes: Sequence[str], wanted: str) -> str:
    """Return `wanted` if it is one of the codes, else the one of the same language, else ""."""
    if not wanted or wanted in codes:
        return wanted
    name = name_of(wanted)
    return next((code for code in codes if name_of(code) == name != wanted), "")


def name_of(code: str) -> str:
    """Return the language's name, or the code itself if it is unknown."""
    base = re.split(r"[_\-@]", code, maxsplit=1)[0].lower()
    return _BY_CODE.get(base, code)


def label_of(code: str) -> str:
    """Return name and code: `German · deu_Latn`."""
    name = name_of(code)
    return code if name == code else f"{name} · {code}"
