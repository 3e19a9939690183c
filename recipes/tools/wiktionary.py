"""Words of Wiktionary as training text: one translation each, nouns with articles and in sentences.

The dictionary has several translations of a word, in no order of importance. The one chosen occurs
most often in translations of sentences with the word, beyond chance; words are taken by their
frequency in those sentences.
"""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import cast

from recipes.tools.grammar import Article, Gender, Noun
from recipes.tools.phrasebook import fill, parse
from recipes.tools.tables import Triple, column, table
from transformer.training.corpus import read_corpus
from transformer.training.data import (
    DataError,
    MissingFileError,
    Pair,
    corpus_folder,
    find_file,
    read_lines,
)
from transformer.training.recipe import DataRecipe

#: Largest numbers of pairs: words, nouns with an article, verbs with "to", sentences.
WORDS, NOUNS, VERBS, SENTENCES = 13_000, 7_000, 3_000, 14_000
#: Nouns that are in three sentences, where others are in one.
FREQUENT = 3_000
#: A word in this many sentences needs a translation that occurs in this share of them.
KNOWN, SHARE = 10, 0.05

#: Parts of speech that are words as they are.
_PARTS = {"n", "v", "adj", "adv", "prop", "num", "interj"}
_NO_NOUN = re.compile(
    r"(?:c|l|d)'|(?:ce|cette|les?|la|une?|en|au|à|des?|du|soi|sur|sans|par|pour)[ -]"
)
#: Patterns of kinds of words: masculine nouns that add -n or -en in other cases are weak, persons
#: that decline as adjectives do are participles or adjectival. {} are the words of the table.
_KINDS = {
    "unusual": "(?i){}", "vulgar": r"(?i)\b{}", "vulgar_target": "(?i){}", "person": r"\b{}\b",
    "person_ending": "{}$", "weak_ending": "(?i){}$", "participle": "{}er?$",
    "adjectival": "{}er?$",
}  # fmt: skip
_WORD = {
    "de": re.compile(r"[A-Za-zÄÖÜäöüßé-]+"),
    "fr": re.compile(r"[^\W\d_]+(?:[ '-][^\W\d_]+){0,3}"),
}


@cache
def _is(kind: str) -> Callable[[str], object]:
    """Return the search for words of a kind."""
    words = "|".join(word for each, word in table("word_kinds", 2) if each == kind)
    return re.compile(_KINDS[kind].format(f"(?:{words})")).search


@dataclass(frozen=True)
class Word:
    """An English word and its best translation as one part of speech."""

    en: str
    part: str
    target: str
    gender: Gender | None
    count: int  # of the English word in the sentences
    rows: int  # of it in the dictionary
    score: float
    person: bool
    countable: bool  # occurs with "a"

    @property
    def rank(self) -> tuple[int, int, str]:
        """Order words by frequency; words in no sentence, by their number of senses."""
        return -self.count, -self.rows, self.en


def pairs(recipe: DataRecipe, folder: Path, turn: int) -> Iterable[Pair]:
    """Return word pairs by frequency in Tatoeba; one of the languages is English."""
    backwards = recipe.tgt == "en"
    forwards = replace(recipe, src="en", tgt=recipe.src) if backwards else recipe
    sentences = read_corpus("tatoeba", forwards, folder).train
    place = corpus_folder("wiktionary", folder)
    return wiktionary_pairs(place, sentences, forwards.tgt, backwards=backwards)


def wiktionary_pairs(
    folder: Path, pairs: Sequence[Pair], tgt: str, *, backwards: bool = False, seed: int = 3
) -> list[Pair]:
    """Make pairs from the dictionary `folder`/en-TGT.tsv, judged by English-TGT sentences.

    Args: backwards: make TGT-English pairs, one for each source.

    Raises: `DataError`, also for a language other than "de" and "fr".
    """
    if tgt not in _WORD:
        raise DataError(f"the dictionary has de and fr, not {tgt!r}")
    rng = random.Random(seed)
    words = sorted(
        _best(_rows(folder / f"en-{tgt}.tsv", tgt), Evidence(pairs)), key=lambda w: w.rank
    )
    made: dict[str, str] = {}

    def add(english: str, target: str) -> None:
        source, other = (target, english) if backwards else (english, target)
        made.setdefault(source, other)

    for word in [word for word in _dominant(words) if word.part != "prop" or word.count][:WORDS]:
        add(word.en, word.target)
    for word in [word for word in words if word.part == "v"][:VERBS]:
        add(f"to {word.en}", word.target)
    seen: dict[str, Counter[Gender]] = defaultdict(Counter)
    for word in words:
        if word.part == "n" and word.gender is not None:
            seen[word.target.lower()][word.gender] += 1
    genders = {noun: counts.most_common(1)[0][0] for noun, counts in seen.items()}
    nouns = [word for word in words if word.part == "n" and _takes_article(word, genders, tgt)]
    for word in nouns[:NOUNS]:
        article: Article = "a" if word.countable and rng.random() < 0.4 else "the"
        noun = _noun(word, tgt)
        add(noun.english(article), noun.german(article) if tgt == "de" else noun.french(article))
    for word in (nouns[:FREQUENT] * 2 + nouns)[:SENTENCES]:
        frame = rng.choice(_frames(word, tgt))
        english, *others = fill(frame, rng, {"noun": (_noun(word, tgt),)})
        add(english, others[tgt == "fr"])
    return list(made.items())


@cache
def _frames_of(kind: str) -> tuple[Triple, ...]:
    """Return sentences around a noun: as the subject, in other cases, or as a thing, with "it"."""
    rows = table("frames", 4)
    return tuple(parse("\t".join(cells), {"noun"}) for each, *cells in rows if each == kind)


def _frames(word: Word, tgt: str) -> list[Triple]:
    weak = tgt == "de" and word.gender == "m" and _is("weak_ending")(word.target)
    kinds = ["subject"] if weak else ["subject", "other"]
    if not weak and not word.person:
        kinds += ["thing"] * 2
    return [
        frame
        for kind in kinds
        for frame in _frames_of(kind)
        if (word.countable or not re.search(r"\{(?!the|it)[a-z]+:", frame[0]))
        and not (word.person and "adj" in frame[0])
    ]


def _noun(word: Word, tgt: str) -> Noun:
    gender = cast(Gender, word.gender)
    if tgt == "de":
        return Noun(word.en, word.target, gender, "", "m")
    return Noun(word.en, "", "m", word.target, gender)


def _takes_article(word: Word, genders: dict[str, Gender], tgt: str) -> bool:
    """Return whether a noun is singular, of a sure gender, and does not decline as an adjective."""
    plural = re.search(r"[^sui]s$", word.en)
    adjectival = word.gender == "m" and (
        (word.person and _is("adjectival")(word.target)) or _is("participle")(word.target)
    )
    if word.gender is None or plural or adjectival:
        return False
    # A compound has the gender of its head, the last part in German, the first in French.
    noun = word.target.lower()
    if (noun[:-1] in genders and noun[-1] in "sx") or (word.gender == "f" and noun.endswith("en")):
        return False  # "Schulden"
    heads = (
        [noun[start:] for start in range(3, len(noun) - 3)] if tgt == "de" else [noun.split()[0]]
    )
    head = next((head for head in (noun, *heads) if head in genders and head != noun), noun)
    return genders[head] == genders[noun] == word.gender


def _dominant(words: Iterable[Word]) -> list[Word]:
    """Keep one part of speech of a word, the one with the most evidence."""
    best: dict[str, Word] = {}
    for word in words:
        if word.en not in best or word.score > best[word.en].score:
            best[word.en] = word
    return sorted(best.values(), key=lambda word: word.rank)


#: English, part of speech, sense, translation, gender.
_Row = tuple[str, str, str, str, str]


def _rows(path: Path, tgt: str) -> Iterator[_Row]:
    """Yield the usable lines of the dictionary."""
    try:
        file = find_file(path)
    except MissingFileError as error:
        raise MissingFileError(
            f"{error}; the dictionary is Wiktionary's, see docs/training.md"
        ) from None
    for number, line in enumerate(read_lines(file), 1):
        columns = line.split("\t")
        if len(columns) != 5:
            raise DataError(f"{file}: line {number} has {len(columns)} columns instead of 5")
        english, part, sense, target, gender = columns
        if (
            part in _PARTS
            and re.fullmatch(r"[A-Za-z]+(?:[ -][A-Za-z]+)?", english)
            and len(english) > 1
            and english.lower() not in column("function_words")
            and not _is("unusual")(sense)
            and not _is("vulgar")(f"{english} {sense}")
            and _usable(part, target, gender, tgt)
        ):
            yield english, part, sense, target, gender


def _usable(part: str, target: str, gender: str, tgt: str) -> bool:
    """Return whether a translation has the form that a word of its part of speech should have."""
    bare = target.removeprefix("sich ").removeprefix("se ").removeprefix("s'")
    if not _WORD[tgt].fullmatch(bare) or gender == "p" or _is("vulgar_target")(target):
        return False
    if part == "n" and _NO_NOUN.match(target):
        return False
    if part in ("n", "prop") and tgt == "de":
        return target[0].isupper()
    if part != "prop" and target[0].isupper():
        return False
    if part == "n":
        return gender in ("m", "f")
    if part == "v":
        return bool(re.search(r"n$" if tgt == "de" else r"(?:er|ir|re)$", bare.split()[0]))
    return not (part == "adj" and gender == "f") and " " not in target


def _best(rows: Iterable[_Row], evidence: Evidence) -> Iterator[Word]:
    """Yield the best translation of every word and part of speech."""
    groups: dict[tuple[str, str], list[_Row]] = defaultdict(list)
    sizes: Counter[str] = Counter()
    for row in rows:
        groups[row[0], row[1]].append(row)
        sizes[row[0]] += 1
    for (english, part), found in groups.items():
        key = english.lower()
        near = evidence.near(key)
        votes = Counter(row[3] for row in found)
        scores = {
            target: evidence.share(key, near, target)
            + 0.05 * n
            + 0.02 * (evidence.frequencies[target] > 2)
            - 0.03 * target.count(" ")
            # The masculine form of a profession stands for both.
            - 0.1 * target.endswith(("erin", "tin", "trice", "euse", "ière", "ienne"))
            for target, n in votes.items()
        }
        target = max(scores, key=scores.__getitem__)
        if evidence.counts[key] >= KNOWN and evidence.share(key, near, target) < SHARE:
            continue
        genders = {row[4] for row in found if row[3] == target} & {"m", "f", "n"}
        yield Word(
            english,
            part,
            target,
            cast(Gender, genders.pop()) if len(genders) == 1 else None,
            evidence.counts[key],
            sizes[english],
            scores[target],
            any(_is("person")(f"{row[2]} {english}") for row in found)
            or bool(_is("person_ending")(english)),
            key in evidence.with_article,
        )


#: A noun after "a" and before the end of its phrase: "a psychology class" is not one.
_WITH_ARTICLE = re.compile(
    r"\ban? (\w+(?: \w+)?)(?=[.,!?;:]| (?:in|on|of|for|and|with|to|at|is|was|that|who|from|by)\b)"
)


class Evidence:
    """Target words that occur in translations of sentences with an English word."""

    def __init__(self, pairs: Sequence[Pair], most: int = 400) -> None:
        self.sentences: dict[str, list[int]] = defaultdict(list)
        self.counts: Counter[str] = Counter()
        self.with_article: set[str] = set()
        # The first word's capital says nothing.
        self.targets = [set(tokens_of(target[:1].lower() + target[1:])) for _, target in pairs]
        self.frequencies = Counter(token for tokens in self.targets for token in tokens)
        for index, (english, _) in enumerate(pairs):
            tokens = tokens_of(english.lower())
            couples = [f"{first} {second}" for first, second in itertools.pairwise(tokens)]
            for token in {*tokens, *couples}:
                self.counts[token] += 1
                if len(self.sentences[token]) < most:
                    self.sentences[token].append(index)
            self.with_article.update(_WITH_ARTICLE.findall(english.lower()))

    def near(self, english: str) -> Counter[str]:
        """Count the words of the translations of sentences with an English word."""
        return Counter(
            token for index in self.sentences.get(english, ()) for token in self.targets[index]
        )

    def share(self, english: str, near: Counter[str], target: str) -> float:
        """Return the share of those sentences that have a translation, less that of all."""
        known = len(self.sentences.get(english, ()))
        if not known:
            return 0.0
        head = max(tokens_of(target), key=len, default="")
        stem = head[: max(3, len(head) - 2)]
        found = sum(
            n for token, n in near.items() if token.startswith(stem) and len(token) <= len(head) + 2
        )
        usual = self.frequencies[head] / max(1, len(self.targets))
        return min(1.0, found / known) - usual


def tokens_of(text: str) -> list[str]:
    """Split a text into its words, without marks and numbers."""
    return re.findall(r"[^\W\d_]+(?:-[^\W\d_]+)*", text)
