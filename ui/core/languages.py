"""The languages that a model takes, and what it is given for those that are chosen.

Models of the `transformers` library take a source and a target language. Marian models of several
target languages take a tag in front of the sentence (`>>deu<<`), which may also be typed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from transformer.text.table import split_tag
from transformer.text.tokenizer import clean
from ui.core.language_names import name_of

#: Chosen in place of a tag: the sentence goes as it is typed.
NO_TAG = "none"


@dataclass(frozen=True)
class Languages:
    """The languages of a model. Empty if it takes no language code.

    Attributes:
        sources, targets: their codes, by name.
        source, target: default codes, "" where there is no choice.
        tagged: whether a tag in front of the sentence says the target.
    """

    sources: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    source: str = ""
    target: str = ""
    tagged: bool = False

    def resolve(
        self, sentence: str, source: str, target: str
    ) -> tuple[str, str | None, str | None]:
        """Return the sentence and the language codes to give to the model.

        Args:
            sentence: as typed.
            source, target: the codes chosen, "" for none. Another model may write a language
                otherwise (`de`, `deu_Latn`); what this one lacks becomes its default.
        """
        if not (source or target):
            return sentence, None, None
        chosen = nearest_code(self.targets, target) or self.target
        if self.tagged:
            if target == NO_TAG or not clean(sentence) or typed_tag(sentence):
                return sentence, None, None
            return f">>{chosen}<< {sentence}", None, None
        known = nearest_code(self.sources, source) or self.source
        return sentence, known or None, chosen or None


def typed_tag(sentence: str) -> str:
    """Return the language tag that a sentence begins with, "" without one."""
    return split_tag(clean(sentence))[0]


def nearest_code(codes: Sequence[str], wanted: str) -> str:
    """Return `wanted` if it is one of the codes, else the one of the same language, else ""."""
    if not wanted or wanted in codes:
        return wanted
    name = name_of(wanted)
    return next((code for code in codes if name_of(code) == name != wanted), "")
