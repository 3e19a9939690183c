"""Nouns with articles, pronouns and adjectives in English, German and French."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Literal

from recipes.tools.tables import table

Gender = Literal["m", "f", "n"]
#: Words before a noun. "No" is "not a" (German "kein", French "de"); "it" stands in place of
#: the noun, and "obj" too: "le" and "la" before a French verb.
Article = Literal[
    "the", "a", "no", "my", "your", "his", "her", "our", "their", "this", "which", "every",
    "it", "obj",
]  # fmt: skip
Case = Literal["nom", "acc", "dat", "gen"]


@dataclass(frozen=True)
class Adjective:
    """An adjective after a form of "be": German predicates do not change."""

    en: str
    de: str
    fr: str
    fr_f: str
    kinds: frozenset[str]


@dataclass(frozen=True)
class Noun:
    """A noun in the singular."""

    en: str
    de: str
    de_gender: Gender
    fr: str
    fr_gender: Gender
    de_gen: str = ""
    de_acc: str = ""  # also the dative; empty: like the nominative

    def english(self, article: Article, adjective: Adjective | None = None) -> str:
        """Return the noun with its article: "an apple"."""
        noun = f"{adjective.en} {self.en}" if adjective else self.en
        if article in ("it", "obj"):
            return "it"
        return f"{indefinite(noun) if article == 'a' else article} {noun}"

    def german(
        self, article: Article, case: Case = "nom", adjective: Adjective | None = None
    ) -> str:
        """Return the noun with its article: "dem Hund", "einem alten Hund"."""
        column = "mfn".index(self.de_gender)
        if article in ("it", "obj"):
            return _PRONOUNS[case].split()[column]
        if article == "the":
            before = _DEFINITE[case].split()[column]
        elif article in _POINTING:
            before = _POINTING[article] + _POINTING_ENDINGS[case].split()[column]
        else:
            before = _POSSESSIVE[article] + _ENDINGS[case][column]
        noun = {"nom": self.de, "gen": self.de_gen or self.de}.get(case, self.de_acc or self.de)
        if adjective:
            endings = _MIXED if article in _POSSESSIVE else _WEAK
            stem = _STEMS.get(adjective.de, adjective.de.removesuffix("e"))
            return f"{before} {stem}{endings.get(case, 'en en en').split()[column]} {noun}"
        return f"{before} {noun}"

    def french(self, article: Article, adjective: Adjective | None = None) -> str:
        """Return the noun with its article: "l'arbre", "le vieil arbre"."""
        feminine = self.fr_gender == "f"
        if article == "it":
            return "elle" if feminine else "il"
        if article == "obj":
            return "la" if feminine else "le"
        noun = self.fr
        if adjective:
            form = adjective.fr_f if feminine else adjective.fr
            if adjective.fr in _BEFORE:
                noun = f"{_BEFORE[adjective.fr] if elides(noun) and not feminine else form} {noun}"
            else:
                noun = f"{noun} {form}"
        if article == "this" and not feminine and elides(noun):
            return f"cet {noun}"
        masculine, other, before_vowel = _FRENCH[article].split()
        if before_vowel != "-" and elides(noun):
            return f"{before_vowel}{noun}" if before_vowel[-1] == "'" else f"{before_vowel} {noun}"
        return f"{other if feminine else masculine} {noun}"


#: German by case, for masculine, feminine and neuter: "the"; endings after the stems below; "it";
#: endings of adjectives after "the" and the like, and after "ein" and the like.
_DEFINITE = {"nom": "der die das", "acc": "den die das", "dat": "dem der dem", "gen": "des der des"}
_ENDINGS = {"nom": ("", "e", ""), "acc": ("en", "e", ""), "dat": ("em", "er", "em"),
            "gen": ("es", "er", "es")}  # fmt: skip
_POINTING_ENDINGS = {"nom": "er e es", "acc": "en e es", "dat": "em er em", "gen": "es er es"}
_PRONOUNS = {"nom": "er sie es", "acc": "ihn sie es", "dat": "ihm ihr ihm"}
_WEAK = {"nom": "e e e", "acc": "en e e"}
_MIXED = {"nom": "er e es", "acc": "en e es"}
_POSSESSIVE = {"a": "ein", "no": "kein", "my": "mein", "your": "dein", "his": "sein", "her": "ihr",
               "our": "unser", "their": "ihr"}  # fmt: skip
_POINTING = {"this": "dies", "which": "welch", "every": "jed"}

#: French: masculine, feminine, and both before a vowel ("-": no change).
_FRENCH = {
    "the": "le la l'", "a": "un une -", "no": "de de d'", "my": "mon ma mon", "your": "ton ta ton",
    "his": "son sa son", "her": "son sa son", "our": "notre notre -", "their": "leur leur -",
    "this": "ce cette -", "which": "quel quelle -", "every": "chaque chaque -",
}  # fmt: skip

#: German adjectives whose stem changes, and French ones that precede their noun, with their
#: masculine form before a vowel.
_STEMS = {"teuer": "teur", "dunkel": "dunkl"}
_BEFORE = {"petit": "petit", "grand": "grand", "jeune": "jeune", "bon": "bon", "vieux": "vieil",
           "beau": "bel", "nouveau": "nouvel"}  # fmt: skip

#: Beginnings of French words with a mute h; before others, "le" and "de" keep their vowel.
_MUTE_H = re.compile(
    r"h(?:abi|agiog|alein|alluc|alog|alt[eé]r|ameçon|armon|ebdo|éb[er]|ébét|ectare|ecto|édon|égém"
    r"|éli|ellé|elv|ém[aio]|épat|ept|erb|érédi|éré[st]|érit|erma|ermé|ermi|éroïn|éroïq|éroïs|erpè"
    r"|ésit|étér|eur(?!t)|exa|ibern|ilar|ippo|irond|ist|iver|olo|omm|om[oi]|omé|onnê|onneu|onor|ôpi"
    r"|or[ailm]|oro|orr|ort|osp|osti|ôte|uil|uis|uîtr|uitr|um[aeio]|umér|umus|yb|yd|yg|ymn|yp|yst)"
)

#: English words whose first sound is not that of their first letter.
_CONSONANT_SOUND = ("uni", "use", "usu", "eu", "one", "u-", "ubi", "uran", "ute", "utop")
_UN = ("unim", "unin", "unid")
_VOWEL_SOUND = ("hour", "honest", "honor", "honour", "heir", "herb")


def indefinite(word: str) -> str:
    """Return "a" or "an" for an English word."""
    lower = word.lower()
    if lower.startswith(_CONSONANT_SOUND) and not lower.startswith(_UN):
        return "a"
    return "an" if lower[:1] in "aeiou" or lower.startswith(_VOWEL_SOUND) else "a"


def elides(word: str) -> bool:
    """Return whether French "le", "de" and "que" lose their vowel before a word."""
    lower = word.lower()
    if lower.startswith(("onz", "oui", "ouistiti", "un ", "une ")):
        # "Un" is an article here: "qu'un chien".
        return lower.startswith("un")
    if lower[:1] == "h":
        return bool(_MUTE_H.match(lower))
    if lower[:1] == "y":
        return lower[1:2] not in ("", *"aeiouéè")
    return lower[:1] != "" and lower[0] in "aàâäeéèêëiîïoôöuùûüœæ"


def _noun(english: str, german: str, genitive: str, oblique: str, french: str) -> Noun:
    """Build a noun from its cells; articles show the genders: "der Hund", "un chien"."""
    genders: dict[str, Gender] = {"der": "m", "die": "f", "das": "n"}
    article, noun = german.split(" ", 1)
    un, fr_noun = french.split(" ", 1)
    fr_gender: Gender = "f" if un == "une" else "m"
    return Noun(english, noun, genders[article], fr_noun, fr_gender, genitive, oblique)


@cache
def nouns() -> dict[str, tuple[Noun, ...]]:
    """Return the nouns by kind; kinds are names of slots."""
    rows = [(kind, _noun(*cells)) for kind, *cells in table("nouns", 6)]
    kinds = dict.fromkeys(kind for kind, _ in rows)
    return {kind: tuple(noun for each, noun in rows if each == kind) for kind in kinds}


@cache
def adjectives() -> tuple[Adjective, ...]:
    """Return the adjectives, with the kinds of nouns that they suit."""
    return tuple(
        Adjective(english, german, masculine, feminine, frozenset(kinds.split()))
        for english, german, masculine, feminine, kinds in table("adjectives", 5)
    )
