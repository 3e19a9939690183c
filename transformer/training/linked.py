"""Sentences of the training text with known word links.

`linked_sentences.tsv` has English, German and French of 240 sentences of the phrasebook, written by
`recipes/tools/linked.py`. `[2 the old dog]` is a slot: its words translate the words of slot 2 in
the other columns. All their links are possible; the link of two single words is sure. Other words
have no known links and do not count.
"""

import re
from pathlib import Path

from transformer.measures.pharaoh import Linked
from transformer.measures.words import Gold, Link
from transformer.training.data import DataError, read_lines
from transformer.training.typed import COLUMNS, has_languages

LINKED_SENTENCES = Path(__file__).with_name("linked_sentences.tsv")

_SLOT = re.compile(r"\[(\d) ([^\[\]]*)\]")


def linked_sentences(src: str, tgt: str) -> list[Linked]:
    """Return the sentences, their translations and links. Raises `DataError` for a language."""
    if not has_languages(src, tgt):
        raise DataError(f"links are known for {', '.join(COLUMNS)}, not for {src}-{tgt}")
    titles, *rows = (line.split("\t") for line in read_lines(LINKED_SENTENCES))
    sides = [titles.index(COLUMNS[code]) for code in (src, tgt)]
    return [_linked(*(row[side] for side in sides)) for row in rows]


def _linked(source: str, target: str) -> Linked:
    (text, words), (other, others) = _read(source), _read(target)
    possible: set[Link] = set()
    sure: set[Link] = set()
    for slot, places in words.items():
        both = {(at, to) for at in places for to in others[slot]}
        possible |= both
        sure |= both if len(both) == 1 else set()
    return Linked(text, other, Gold(frozenset(sure), frozenset(possible)))


def _read(marked: str) -> tuple[str, dict[str, list[int]]]:
    """Return a sentence without marks, and the words of every slot, separated by spaces."""
    text, slots = "", dict[str, list[int]]()
    for at, part in enumerate(_SLOT.split(marked)):
        if at % 3 == 1:
            slot = part
            continue
        start = len(text)
        text += part
        if at % 3 == 2:
            first = len(text[:start].split()) - (start > 0 and not text[start - 1].isspace())
            slots[slot] = list(range(first, len(text.split())))
    return text, slots
