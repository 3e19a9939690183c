"""Typed sentences: what visitors of a translation demo type first, with accepted translations.

`typed_sentences.tsv` has 200 sentences in 20 topics, a development set: written by hand before
training, but phrases were added to the training text while the score rose. No English sentence of
it occurs in Tatoeba or in the training part of Multi30k. A cell
holds everything that a strict language teacher accepts as one pattern:

    [Hallo|Guten Tag], Anna!        one of the alternatives; they may be empty, and brackets nest
    Er kam. | Er ist gekommen.      whole sentences

A column's first variants are the sources of models that read its language.

A translation is right if it equals an accepted variant up to the case of the first letter, spaces,
the form of quotation marks and apostrophes, and a final full stop or exclamation mark.
"""

from __future__ import annotations

import csv
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from transformer.search.decoding import Decoding
from transformer.training.corpus import TYPED_SENTENCES, spelled_out
from transformer.training.data import DataError
from transformer.translator import Translator

_COLUMNS = {"en": "English", "de": "German", "fr": "French"}

_QUOTES = str.maketrans({**dict.fromkeys("‘’ʼ`´", "'"), **dict.fromkeys("“”„«»", '"')})
_SPACE_BEFORE = re.compile(r" (?=[,.;:!?…%€])")


@dataclass(frozen=True)
class TypedSentence:
    """A sentence to translate."""

    topic: str  # what it is about, one of 20
    source: str  # the sentence
    accepted: tuple[str, ...]  # every accepted translation, the first one first


@dataclass(frozen=True)
class Verdict:
    """A translation of a typed sentence, and whether it is accepted."""

    #: topic, source: of the sentence
    topic: str
    source: str
    translation: str  # the model's
    right: bool  # whether it is accepted
    reference: str  # the first accepted translation
    #: whether the training text has the sentence but for one word (see `near_sources`); None if
    #: unknown
    near: bool | None = None


def has_languages(src: str, tgt: str) -> bool:
    """Return whether the list can test translation from one language code to another."""
    return src != tgt and {src, tgt} <= _COLUMNS.keys()


def typed_sentences(src: str, tgt: str) -> tuple[TypedSentence, ...]:
    """Return the list for a pair of language codes. Raises `DataError` if it lacks one of them."""
    if not has_languages(src, tgt):
        have = ", ".join(f"{name} ({code})" for code, name in _COLUMNS.items())
        raise DataError(
            f"the typed sentences are in {have}; they cannot test {src or '?'} to {tgt or '?'}"
        )
    with TYPED_SENTENCES.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return tuple(
        TypedSentence(row["topic"], variants(row[_COLUMNS[src]])[0], variants(row[_COLUMNS[tgt]]))
        for row in rows
    )


def typed_text(sentences: Sequence[TypedSentence]) -> tuple[str, list[tuple[str, ...]]]:
    """Return name and items of the list for a stamp: each source with what is accepted."""
    return "typed sentences", [(each.source, *each.accepted) for each in sentences]


def variants(pattern: str) -> tuple[str, ...]:
    """Return every text that a pattern accepts, each once, starting with all first alternatives.

    Raises: `DataError` for a bracket without its partner.
    """
    depth = 0
    for place, sign in enumerate(pattern, 1):
        depth += (sign == "[") - (sign == "]")
        if depth < 0:
            raise DataError(f"{pattern!r}: ']' at {place} closes no bracket")
    if depth:
        raise DataError(f"{pattern!r}: a bracket is never closed")
    # Alternatives that are empty leave spaces behind.
    texts = (" ".join(text.split()) for text in spelled_out(pattern))
    return tuple(dict.fromkeys(re.sub(r" (?=[,.])", "", text) for text in texts))


def normal_form(text: str) -> str:
    """Return a translation without the differences that do not count."""
    text = " ".join(unicodedata.normalize("NFC", text).translate(_QUOTES).split())
    text = _SPACE_BEFORE.sub("", text).rstrip(".!…")
    return text[:1].lower() + text[1:]


def accepts(accepted: Sequence[str], translation: str) -> bool:
    """Return whether a translation is one of the accepted ones."""
    return normal_form(translation) in map(normal_form, accepted)


def judge(
    translator: Translator,
    sentences: Sequence[TypedSentence],
    decoding: Decoding | None = None,
    on_translated: Callable[[int, int], None] | None = None,
) -> tuple[Verdict, ...]:
    """Translate the sentences and judge each; `decoding` None is the checkpoint's default."""
    how = decoding or translator.decoding
    done = translator.translate(
        [each.source for each in sentences], how.beam_size, how.alpha, on_translated=on_translated
    )
    return tuple(
        Verdict(
            each.topic, each.source, found.text, accepts(each.accepted, found.text),
            each.accepted[0],
        )
        for each, found in zip(sentences, done, strict=True)
    )  # fmt: skip


def near_sources(sentences: Iterable[str], training: Iterable[str]) -> frozenset[str]:
    """Return the sentences from which a training source differs in at most one word.

    A word is replaced, added or left out; case and punctuation do not count.
    """
    spellings: dict[tuple[str | None, ...], set[str]] = {}
    for sentence in sentences:
        for spelling in _but_for_a_word(sentence):
            spellings.setdefault(spelling, set()).add(sentence)
    found: set[str] = set()
    for source in training:
        for spelling in _but_for_a_word(source):
            found |= spellings.get(spelling, set())
    return frozenset(found)


def _but_for_a_word(sentence: str) -> Iterator[tuple[str | None, ...]]:
    """Yield the words with None in place of each, and with None in each gap."""
    words = re.findall(r"\w+", sentence.casefold())
    for place in range(len(words) + 1):
        yield (*words[:place], None, *words[place + 1 :])
        yield (*words[:place], None, *words[place:])


def by_topic(verdicts: Sequence[Verdict]) -> dict[str, tuple[int, int]]:
    """Return, by topic, how many translations are right, and how many there are."""
    right = Counter(each.topic for each in verdicts if each.right)
    return {topic: (right[topic], n) for topic, n in Counter(v.topic for v in verdicts).items()}


def to_dict(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Return the verdicts for metrics.json and `--json`."""
    return {
        "right": sum(each.right for each in verdicts),
        "sentences": len(verdicts),
        "topics": {
            topic: {"right": right, "sentences": n}
            for topic, (right, n) in by_topic(verdicts).items()
        },
        "verdicts": [asdict(each) for each in verdicts],
    }


def from_dict(record: Mapping[str, Any]) -> tuple[Verdict, ...]:
    """Return the verdicts that `to_dict` wrote."""
    return tuple(Verdict(**each) for each in record["verdicts"])
