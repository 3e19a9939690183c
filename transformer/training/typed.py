"""Typed sentences: first inputs of demo visitors, with accepted translations.

`typed_sentences.tsv` is a development set of 200 sentences in 20 topics. It was written by hand
before training, but phrases were added to the training text while the score rose. Its English
sentences do not occur in Tatoeba or in Multi30k's training part. A cell is one pattern for
everything that a strict language teacher accepts:

    [Hallo|Guten Tag], Anna!        one of the alternatives; they may be empty, and brackets nest
    Er kam. | Er ist gekommen.      whole sentences

Models that read a column's language translate its first variants.

A translation is right if it equals an accepted variant, ignoring the case of the first letter,
spaces, forms of quotation marks and apostrophes, and a final full stop or exclamation mark.
"""

import csv
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from transformer.search.request import Decoding
from transformer.training.corpus import TYPED_SENTENCES, spelled_out
from transformer.training.data import DataError
from transformer.translator import Translator

#: Languages of the sentences, here and in `transformer.training.linked`.
COLUMNS = {"en": "English", "de": "German", "fr": "French"}

_QUOTES = str.maketrans({**dict.fromkeys("‘’ʼ`´", "'"), **dict.fromkeys("“”„«»", '"')})
_SPACE_BEFORE = re.compile(r" (?=[,.;:!?…%€])")


@dataclass(frozen=True)
class TypedSentence:
    """A sentence to translate."""

    topic: str
    source: str
    accepted: tuple[str, ...]  # accepted translations, starting with all first alternatives


@dataclass(frozen=True)
class Verdict:
    """A model's translation of a typed sentence, judged."""

    topic: str
    source: str
    translation: str
    right: bool  # True if it is accepted
    reference: str  # the first accepted translation
    near: bool | None = None  # True if the source is in `near_sources`; None if unknown


def has_languages(src: str, tgt: str) -> bool:
    """Return True if there are sentences in two different languages, given by their codes."""
    return src != tgt and {src, tgt} <= COLUMNS.keys()


def typed_sentences(src: str, tgt: str) -> tuple[TypedSentence, ...]:
    """Return the list for two language codes. Raises `DataError` if it lacks one of them."""
    if not has_languages(src, tgt):
        known = ", ".join(f"{name} ({code})" for code, name in COLUMNS.items())
        raise DataError(
            f"the typed sentences are in {known}; they cannot test {src or '?'} to {tgt or '?'}"
        )
    with TYPED_SENTENCES.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return tuple(
        TypedSentence(row["topic"], variants(row[COLUMNS[src]])[0], variants(row[COLUMNS[tgt]]))
        for row in rows
    )


def typed_text(sentences: Sequence[TypedSentence]) -> tuple[str, list[tuple[str, ...]]]:
    """Return the list's name and items for a stamp: sources with their accepted translations."""
    return "typed sentences", [(item.source, *item.accepted) for item in sentences]


def variants(pattern: str) -> tuple[str, ...]:
    """Return the distinct texts that a pattern accepts, starting with all first alternatives.

    Raises: `DataError` for an unmatched bracket.
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
    """Return a translation without differences that do not count."""
    text = " ".join(unicodedata.normalize("NFC", text).translate(_QUOTES).split())
    text = _SPACE_BEFORE.sub("", text).rstrip(".!…")
    return text[:1].lower() + text[1:]


def accepts(accepted: Sequence[str], translation: str) -> bool:
    """Return True if a translation is accepted."""
    return normal_form(translation) in map(normal_form, accepted)


def judge(
    translator: Translator, sentences: Sequence[TypedSentence], decoding: Decoding | None = None,
    on_translated: Callable[[int, int], None] | None = None,
) -> tuple[Verdict, ...]:  # fmt: skip
    """Translate sentences and judge the results; by default, with the checkpoint's decoding."""
    how = decoding or translator.decoding
    sources = [item.source for item in sentences]
    translations = translator.translate(
        sources, how.beam_size, how.alpha, on_translated=on_translated
    )
    return tuple(
        Verdict(item.topic, item.source, text, accepts(item.accepted, text), item.accepted[0])
        for item, text in zip(sentences, (done.text for done in translations), strict=True)
    )


def near_sources(sentences: Iterable[str], training: Iterable[str]) -> frozenset[str]:
    """Return the sentences that differ from some training source in at most one word.

    A word may be replaced, added or omitted; case and punctuation do not count.
    """
    spellings: dict[tuple[str | None, ...], set[str]] = {}
    for sentence in sentences:
        for spelling in _but_for_a_word(sentence):
            spellings.setdefault(spelling, set()).add(sentence)
    near: set[str] = set()
    for source in training:
        for spelling in _but_for_a_word(source):
            near |= spellings.get(spelling, set())
    return frozenset(near)


def _but_for_a_word(sentence: str) -> Iterator[tuple[str | None, ...]]:
    """Yield the words with None in place of one word or in one gap."""
    words = re.findall(r"\w+", sentence.casefold())
    for place in range(len(words) + 1):
        yield (*words[:place], None, *words[place + 1 :])
        yield (*words[:place], None, *words[place:])


def by_topic(verdicts: Sequence[Verdict]) -> dict[str, tuple[int, int]]:
    """Return the number of right translations and of all translations by topic."""
    right = Counter(verdict.topic for verdict in verdicts if verdict.right)
    return {topic: (right[topic], n) for topic, n in Counter(v.topic for v in verdicts).items()}


def to_dict(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Return the verdicts for metrics.json and `--json`."""
    return {
        "right": sum(verdict.right for verdict in verdicts),
        "sentences": len(verdicts),
        "topics": {
            topic: {"right": right, "sentences": n}
            for topic, (right, n) in by_topic(verdicts).items()
        },
        "verdicts": [asdict(verdict) for verdict in verdicts],
    }


def from_dict(record: Mapping[str, Any]) -> tuple[Verdict, ...]:
    """Return the verdicts that `to_dict` wrote."""
    return tuple(Verdict(**values) for values in record["verdicts"])
