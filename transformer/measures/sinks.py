"""Classes of keys, and the attention that they get."""

import unicodedata
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from transformer.text.marks import LANGUAGE, SPECIAL, unmarked
from transformer.types import Floats

#: In the order of a bar: a tag names a language or task.
KeyClass = Literal["word", "punctuation", "</s>", "<s>", "tag"]
KEY_CLASSES: tuple[KeyClass, ...] = get_args(KeyClass)


def key_classes(tokens: Sequence[str], special: Sequence[int] = ()) -> tuple[KeyClass, ...]:
    """Return each token's class.

    Args: special: positions of special tokens; a first one counts as `<s>`, others as `</s>`.
    """

    def named(at: int, text: str) -> KeyClass:
        if SPECIAL.fullmatch(text) and (LANGUAGE.fullmatch(text) or text[:2] in (">>", "__", "<2")):
            return "tag"
        if at in special:
            return "<s>" if at == 0 and text != "</s>" else "</s>"
        letters = [letter for letter in text if not letter.isspace()]
        marks = letters and all(unicodedata.category(letter)[0] in "PS" for letter in letters)
        return "punctuation" if marks else "word"

    return tuple(named(at, text) for at, text in enumerate(unmarked(tokens)))


def mass_by_class(maps: Floats, classes: Sequence[KeyClass]) -> dict[KeyClass, float]:
    """Return the share of maps [..., n, m] on each class of key that the text has."""
    total = float(maps.sum(dtype=np.float64)) or 1.0
    columns = maps.reshape(-1, maps.shape[-1]).sum(0, dtype=np.float64) / total
    return {
        name: float(sum(columns[at] for at, own in enumerate(classes) if own == name))
        for name in KEY_CLASSES if name in classes
    }  # fmt: skip
