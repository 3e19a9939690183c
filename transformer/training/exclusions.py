"""Sentences that no model is trained on, since they select models or are shown on pages."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from transformer.training.data import read_lines, source_key
from transformer.training.pronouns import HELD_OUT

#: Columns: topic, English, German, French. "[a|b]" are alternatives, also nested; a bar outside of
#: brackets separates whole sentences.
TYPED_SENTENCES = Path(__file__).parents[1] / "evaluation" / "typed_sentences.tsv"


#: `HELD_OUT` as German sources.
_HELD_OUT_GERMAN = (
    "Das Tier überquerte die Straße nicht, weil es zu müde war.",
    "Das Tier überquerte die Straße nicht, weil sie zu breit war.",
    "Die Katze saß auf der Matte, weil sie müde war.",
)


@cache
def excluded_sources(typed: Path | None = None) -> frozenset[str]:
    """Return the keys (see `source_key`) of sentences that no training text has as a source."""
    file = typed or TYPED_SENTENCES
    lines = [line.split("\t")[1:] for line in read_lines(file)[1:]] if file.is_file() else []
    return frozenset(
        source_key(sentence)
        for cell in (*itertools.chain(*lines), *HELD_OUT, *_HELD_OUT_GERMAN)
        for sentence in spelled_out(cell)
    )


def spelled_out(text: str) -> list[str]:
    """Return every sentence that a text with alternatives stands for: "[a|b] c" is "a c", "b c"."""
    return _alternatives(iter(text))


def _alternatives(signs: Iterator[str]) -> list[str]:
    """Spell out a text up to its end or to a closing bracket."""
    done, last = list[str](), [""]
    for sign in signs:
        if sign == "]":
            break
        if sign == "|":
            done, last = done + last, [""]
        else:
            tails = _alternatives(signs) if sign == "[" else [sign]
            last = [head + tail for head in last for tail in tails]
    return done + last
