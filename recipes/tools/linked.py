"""Sentences of the phrasebook whose word links are known: python -m recipes.tools.linked.

Writes transformer/training/linked_sentences.tsv. A filled slot is the same thing in all columns, so
its words translate each other. `[2 the old dog]` is slot 2; the other words have no known link.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from pathlib import Path

from recipes.tools.phrasebook import SLOT, fill, read_phrases
from recipes.tools.tables import Triple
from transformer.files.folders import write_atomic

FILE = Path(__file__).parents[2] / "transformer/training/linked_sentences.tsv"
#: Sentences, and the most words of a slot and of a sentence.
N, MOST_SLOT, MOST_WORDS = 240, 4, 16
_MARKED = re.compile(r"\x01([^\x01\x02]*)\x02")


def linked_sentences(phrases: Iterable[Triple], n: int = N, *, seed: int = 7) -> list[Triple]:
    """Return distinct sentences, each from a different phrase with at least two slots of words."""
    rng, found = random.Random(seed), dict[str, Triple]()
    phrases = [phrase for phrase in phrases if phrase[0].count("{") > 1]
    rng.shuffle(phrases)
    for phrase in phrases:
        marked = _marked(phrase, rng)
        if marked is not None:
            found.setdefault(marked[0], marked)
        if len(found) == n:
            break
    return list(found.values())


def _marked(phrase: Triple, rng: random.Random) -> Triple | None:
    """Fill a phrase with its slots marked; None if a slot is not one stretch of words."""
    filled = fill(phrase, rng, marked=True)
    numbers: dict[str, int] = {}
    columns = []
    for column, text in zip(phrase, filled, strict=True):
        slots, values = [*SLOT.finditer(column)], _MARKED.findall(text)
        names = [f"{slot[2]}{slot[3]}" for slot in slots]
        bare = "\x01" in _MARKED.sub("", text) or "\x02" in _MARKED.sub("", text)
        if bare or len(values) != len(names) or len({*names}) != len(names):
            return None
        if any(len(value.split()) > MOST_SLOT for value in values) or re.search(r"[\[\]]", text):
            return None
        if len(text.split()) > MOST_WORDS:
            return None
        for name, value in zip(names, values, strict=True):
            number = numbers.setdefault(name, len(numbers) + 1)
            text = text.replace(f"\x01{value}\x02", f"[{number} {value}]", 1)
        columns.append(text)
    return columns[0], columns[1], columns[2]


def main() -> None:
    """Write the file."""
    write_atomic(FILE, as_text(linked_sentences(read_phrases())).encode())


def as_text(sentences: Iterable[Triple]) -> str:
    """Return the file's text, with titles."""
    rows = [("English", "German", "French"), *sentences]
    return "".join("\t".join(columns) + "\n" for columns in rows)


if __name__ == "__main__":
    main()
