"""Training pairs in which a pronoun must agree with its noun.

English "it" becomes "er", "sie" or "es" in German and "il" or "elle" in French, depending on the
noun's gender. Everyday text has too few examples: 42 of 168,049 pairs of Tatoeba contain "because
it". So clauses with known translations are appended to real pairs whose target shows the gender by
its article: "The cup broke." and "Die Tasse zerbrach." become "The cup broke because it was too
old." and "Die Tasse zerbrach, weil sie zu alt war." The noun is the subject, or the only object of
a clause whose subject is a person. Adjectives are random, so the sentences teach only agreement.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from recipes.tools.grammar import Gender
from recipes.tools.tables import column, table, triples
from transformer.training.corpus import HELD_OUT, read_corpus
from transformer.training.data import DataError, Pair
from transformer.training.recipe import DataRecipe

_PRONOUNS: dict[str, dict[Gender, str]] = {
    "de": {"m": "er", "f": "sie", "n": "es"},
    "fr": {"m": "il", "f": "elle"},
}

_SUBJECT = re.compile(r"The ([a-z]+)\b[^,;:?!\"]*\.")
_OBJECT = re.compile(r"(?:I|He|She|We|They|Tom|Mary) [^,;:?!\"]*\bthe ([a-z]+)\.")
_OWNED = re.compile(r"\b(?:it|its|he|she|they|who|that|which|because|but|and|or)\b", re.IGNORECASE)


def pairs(recipe: DataRecipe, folder: Path, turn: int) -> list[Pair]:
    """Return pairs made of Tatoeba's training part. Raises `DataError`."""
    if recipe.src != "en":
        raise DataError(f"agreement needs English as the source, not {recipe.src!r}")
    return agreement_pairs(read_corpus("tatoeba", recipe, folder).train, recipe.tgt)


def agreement_pairs(
    pairs: Sequence[Pair], tgt: str, *, copies: int = 2, seed: int = 5
) -> list[Pair]:
    """Extend real English pairs with clauses whose pronoun agrees with a preceding noun.

    Args: tgt: "de" or "fr".  copies: number of clauses for each suitable pair.

    Returns: distinct new pairs, without the sources in `HELD_OUT`.

    Raises: `DataError` for another language.
    """
    if tgt not in _PRONOUNS:
        raise DataError(
            f"agreement is available for {', '.join(sorted(_PRONOUNS))}, not for {tgt!r}"
        )
    rng = random.Random(seed)
    clauses = [(row[0], row[1 + (tgt == "fr")]) for row in triples("agreement")]
    adjectives = {  # masculine and feminine; German predicates do not change
        english: (french, feminine) if tgt == "fr" else (german, german)
        for english, german, french, feminine in table("predicates", 4)
        if tgt == "de" or french
    }
    genders = _vowel_genders(target for _, target in pairs) if tgt == "fr" else {}
    made: dict[Pair, None] = {}
    for source, target in pairs:
        gender = _gender(source, target, tgt, genders)
        if gender is None:
            continue
        for clause, translated in rng.sample(clauses, copies):
            adjective = rng.choice(sorted(adjectives))
            words = {"p": _PRONOUNS[tgt][gender], "a": adjectives[adjective][gender == "f"]}
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
    if found is None or found[1] in column("not_it") or found[1].endswith("s"):
        return None
    if thing is not None and len(re.findall(r"\b(?:the|a|an|his|her|my|our|their)\b", source)) > 1:
        return None
    words = target[:-1].split()
    return (_german if tgt == "de" else _french)(words, subject is not None, genders)


def _german(words: list[str], subject: bool, genders: dict[str, Gender]) -> Gender | None:
    """Infer the gender from the article: nominative for subjects, accusative for objects."""
    nominative: dict[str, Gender] = {"Der": "m", "Die": "f", "Das": "n"}
    accusative: dict[str, Gender] = {"den": "m", "die": "f", "das": "n"}
    if subject:
        # "Die" with a verb in -n is a plural: "Die Schuhe waren neu."
        if len(words) < 3 or (words[0] == "Die" and re.search("n$|^sind$", words[2])):
            return None
        return nominative.get(words[0]) if words[1][:1].isupper() else None
    articles = re.compile(r"d(?:er|e[nms]|ie|as)|ein(?:en|e|em)?")
    places = [at for at, word in enumerate(words[:-1]) if articles.fullmatch(word)]
    if len(places) != 1 or not words[places[0] + 1][:1].isupper():
        return None
    before = words[places[0] - 1] if places[0] else ""
    # After most prepositions the article may be a dative: "in den" is ambiguous.
    if before in {"in", "an", "auf", "zu", "mit", "von", "bei", "aus", "nach", "über", "vor"}:
        return None
    return accusative.get(words[places[0]])


def _french(words: list[str], subject: bool, genders: dict[str, Gender]) -> Gender | None:
    """Infer the gender from the article, or for "l'" from other sentences with the noun."""
    articles = re.compile(r"l[ea]|les|une?|des|du|au|[ldLD]['’].*")
    places = [0] if subject else [at for at, word in enumerate(words) if articles.fullmatch(word)]
    if len(places) != 1:
        return None
    article, noun = [*words, "", ""][places[0] : places[0] + 2]
    if article in {"Le", "le"}:
        return "m"
    if article in {"La", "la"}:
        # "Je la vois": a pronoun before a verb, without a noun.
        return "f" if noun and (subject or words[-1] == noun) else None
    match = re.fullmatch(r"[Ll]['’](\w+)", article)
    return genders.get(match[1].lower()) if match else None


def _vowel_genders(sentences: Iterable[str]) -> dict[str, Gender]:
    """Return the gender of French nouns with an initial vowel, where "un" or "une" shows it."""
    seen: dict[str, Counter[Gender]] = {}
    for sentence in sentences:
        for article, noun in re.findall(r"\b([Uu]ne?) (\w+)", sentence):
            gender: Gender = "f" if article.lower() == "une" else "m"
            seen.setdefault(noun.lower(), Counter())[gender] += 1
    return {
        noun: counts.most_common(1)[0][0]
        for noun, counts in seen.items()
        if counts.total() >= 2 and counts.most_common(1)[0][1] > 0.9 * counts.total()
    }
