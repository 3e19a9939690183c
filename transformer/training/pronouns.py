"""Training pairs in which a pronoun must agree with its noun.

English "it" becomes "er", "sie" or "es" in German and "il" or "elle" in French, depending on the
noun's gender. Everyday text has too few examples for a small model: 42 of 168,049 pairs of Tatoeba
contain "because it". So clauses with known translations are appended to real pairs whose target
shows the gender by its article: "The cup broke." and "Die Tasse zerbrach." become "The cup broke
because it was too old." and "Die Tasse zerbrach, weil sie zu alt war." The noun is the subject, or
the only object of a clause whose subject is a person.

The clauses are fixed and the adjectives random, so the sentences may be implausible; they teach
only agreement.
"""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Literal

from transformer.training.synthetic.tables import column, table

Gender = Literal["masculine", "feminine", "neuter"]
Pair = tuple[str, str]

#: Sentences used by tests and pages, which are never a source here.
HELD_OUT = (
    "The animal didn't cross the street because it was too tired.",
    "The animal didn't cross the street because it was too wide.",
    "The cat sat on the mat because it was tired.",
)


#: Nouns whose pronoun is "he", "she" or "they", or that do not denote a thing.
@cache
def _not_it() -> frozenset[str]:
    return frozenset(column("not_it"))


@cache
def _adjectives(tgt: str) -> dict[str, tuple[str, str]]:
    """English: (masculine, feminine); German predicates do not change."""
    rows = table("predicates", 4)
    if tgt == "de":
        return {english: (german, german) for english, german, *_ in rows}
    return {english: (french, feminine) for english, _, french, feminine in rows if french}


_PRONOUNS: dict[str, dict[Gender, str]] = {
    "de": {"masculine": "er", "feminine": "sie", "neuter": "es"},
    "fr": {"masculine": "il", "feminine": "elle"},
}

#: English clause, and the target's with pronoun {p} and adjective {a}.
_CLAUSES: dict[str, tuple[Pair, ...]] = {
    "de": (
        (" because it was {a}", ", weil {p} {a} war"),
        (" because it was too {a}", ", weil {p} zu {a} war"),
        (" because it was very {a}", ", weil {p} sehr {a} war"),
        (" because it is {a}", ", weil {p} {a} ist"),
        (", but it was {a}", ", aber {p} war {a}"),
        (" and it was {a}", ", und {p} war {a}"),
    ),
    "fr": (
        (" because it was {a}", " parce qu'{p} était {a}"),
        (" because it was too {a}", " parce qu'{p} était trop {a}"),
        (" because it was very {a}", " parce qu'{p} était très {a}"),
        (" because it is {a}", " parce qu'{p} est {a}"),
        (", but it was {a}", ", mais {p} était {a}"),
        (" and it was {a}", " et {p} était {a}"),
    ),
}

_SUBJECT = re.compile(r"The ([a-z]+)\b[^,;:?!\"]*\.")
_OBJECT = re.compile(r"(?:I|He|She|We|They|Tom|Mary) [^,;:?!\"]*\bthe ([a-z]+)\.")
_OWNED = re.compile(r"\b(?:it|its|he|she|they|who|that|which|because|but|and|or)\b", re.IGNORECASE)


def agreement_pairs(
    pairs: Sequence[Pair], tgt: str, *, copies: int = 2, seed: int = 5
) -> list[Pair]:
    """Extend real English pairs with clauses whose pronoun agrees with a noun before it.

    Args:
        pairs: (English, target) sentences.
        tgt: "de" or "fr".
        copies: number of clauses for each suitable pair.

    Returns: distinct new pairs, without the sources in `HELD_OUT`.

    Raises: `ValueError` for another language.
    """
    if tgt not in _CLAUSES:
        raise ValueError(
            f"agreement is available for {', '.join(sorted(_CLAUSES))}, not for {tgt!r}"
        )
    rng = random.Random(seed)
    genders = _vowel_genders(target for _, target in pairs) if tgt == "fr" else {}
    made: dict[Pair, None] = {}
    for source, target in pairs:
        gender = _gender(source, target, tgt, genders)
        if gender is None:
            continue
        for clause, translated in rng.sample(_CLAUSES[tgt], copies):
            adjective = rng.choice(sorted(_adjectives(tgt)))
            forms = _adjectives(tgt)[adjective]
            words = {"p": _PRONOUNS[tgt][gender], "a": forms[gender == "feminine"]}
            end = "" if target[:-1].endswith(" ") else target[-1]
            new = (
                source[:-1] + clause.format(a=adjective) + ".",
                target[:-1].rstrip() + translated.format(**words) + (end or "."),
            )
            if new[0] not in HELD_OUT:
                made[new] = None
    return list(made)


def _gender(source: str, target: str, tgt: str, genders: dict[str, Gender]) -> Gender | None:
    """Return the gender of the noun that "it" would refer to; None if it is unclear."""
    if not target.endswith(".") or re.search(r"[,;:?!\"„“«»]", target) or _OWNED.search(source):
        return None
    subject, thing = _SUBJECT.fullmatch(source), _OBJECT.fullmatch(source)
    found = subject or thing
    if found is None or found[1] in _not_it() or found[1].endswith("s"):
        return None
    if thing is not None and len(re.findall(r"\b(?:the|a|an|his|her|my|our|their)\b", source)) > 1:
        return None
    words = target[:-1].split()
    return (_german if tgt == "de" else _french)(words, subject is not None, genders)


def _german(words: list[str], subject: bool, genders: dict[str, Gender]) -> Gender | None:
    """Infer the gender from the article: nominative for subjects, accusative for objects."""
    if subject:
        articles: dict[str, Gender] = {"Der": "masculine", "Die": "feminine", "Das": "neuter"}
        if len(words) < 3 or not words[1][:1].isupper():
            return None
        # "Die" with a verb in -n is a plural: "Die Schuhe waren neu."
        plural = words[0] == "Die" and (words[2].endswith("n") or words[2] == "sind")
        return None if plural else articles.get(words[0])
    articles = {"den": "masculine", "die": "feminine", "das": "neuter"}
    held = [
        (word, following)
        for word, following in itertools.pairwise(words)
        if word in {"der", "den", "dem", "des", "die", "das", "ein", "einen", "eine", "einem"}
    ]
    if len(held) != 1 or not held[0][1][:1].isupper():
        return None
    before = words[words.index(held[0][0]) - 1] if words.index(held[0][0]) else ""
    # After most prepositions the article may be a dative: "in den" is ambiguous.
    if before in {"in", "an", "auf", "zu", "mit", "von", "bei", "aus", "nach", "über", "vor"}:
        return None
    return articles.get(held[0][0])


def _french(words: list[str], subject: bool, genders: dict[str, Gender]) -> Gender | None:
    """Infer the gender from the article, or for "l'" from other sentences with the noun."""
    if subject:
        article, noun = words[0], words[1] if len(words) > 1 else ""
    else:
        held = [
            (word, following)
            for word, following in zip(words, [*words[1:], ""], strict=True)
            if word in {"le", "la", "les", "un", "une", "des", "du", "au"}
            or re.match(r"[ldLD]['’]", word)
        ]
        if len(held) != 1:
            return None
        article, noun = held[0]
    if article in {"Le", "le"}:
        return "masculine"
    if article in {"La", "la"}:
        # "Je la vois": a pronoun before a verb, without a noun.
        return "feminine" if noun and (subject or words[-1] == noun) else None
    if match := re.fullmatch(r"[Ll]['’](\w+)", article):
        return genders.get(match[1].lower())
    return None


def _vowel_genders(sentences: Iterable[str]) -> dict[str, Gender]:
    """Return the gender of French nouns with an initial vowel, where "un" or "une" shows it."""
    seen: dict[str, Counter[Gender]] = {}
    for sentence in sentences:
        for article, noun in re.findall(r"\b([Uu]ne?) (\w+)", sentence):
            gender: Gender = "feminine" if article.lower() == "une" else "masculine"
            seen.setdefault(noun.lower(), Counter())[gender] += 1
    return {
        noun: counts.most_common(1)[0][0]
        for noun, counts in seen.items()
        if counts.total() >= 2 and counts.most_common(1)[0][1] > 0.9 * counts.total()
    }
