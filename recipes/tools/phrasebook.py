"""A phrasebook: lines of English, German and French, some with slots that are filled at random.

A slot has the same name in all columns: `{name}`, `{n}`, `{date}` and so on (see `VALUES`), a
noun with its article (`{the:animal}`; German adds the case, `{the:animal.acc}`), with an adjective
(`{a:animal+adj}`) or as a pronoun (`{it:animal}`), or `{adj}`, an adjective that agrees with the
first noun before it. Words and clauses come from lists in `slots/`, one file a slot: `{beento}`. A
digit makes a second one: `{name2}`. French "de", "à" and "que" before a slot are contracted and
elided: "du chien", "d'Ali"; German "zu dem" is "zum".
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import cast, get_args

from recipes.tools.grammar import Adjective, Article, Case, Noun, adjectives, elides, nouns
from recipes.tools.tables import FOLDER, Triple, slot_lists
from recipes.tools.values import VALUES
from transformer.training.data import DataError, MissingFileError, Pair, read_lines
from transformer.training.recipe import DataRecipe

LANGUAGES = ("en", "de", "fr")
#: Share of the pairs that come again without a full stop.
HASTY = 0.2

#: Values of a slot.
Value = Triple | Noun | Adjective

SLOT = re.compile(
    rf"\{{(?:({'|'.join(get_args(Article))}):)?([a-z]+)(\d?)(\+adj)?(?:\.(acc|dat|gen))?\}}"
)
_TWELVE_HOURS = re.compile(r"\b[ap]\.?m\b")
# Stands before and after a filled slot while its neighbours are put right.
_LEFT, _RIGHT = "\x01", "\x02"


def pairs(recipe: DataRecipe, folder: Path, turn: int) -> list[Pair]:
    """Return the project's phrases; every turn fills the slots with different words."""
    return phrasebook_pairs(read_phrases(), recipe.src, recipe.tgt, seed=turn)


def read_phrases(folder: Path = FOLDER) -> list[Triple]:
    """Read the lines of all .tsv files in a folder, in the order of their names.

    Raises: `DataError` naming the file, the line and the fault.
    """
    files = sorted(folder.glob("*.tsv"))
    if not files:
        raise MissingFileError(f"{folder}: no phrasebook (.tsv files) there")
    phrases = []
    for file in files:
        for number, line in enumerate(read_lines(file), 1):
            try:
                phrases.append(parse(line))
            except DataError as error:
                raise DataError(f"{file}: line {number}: {error}") from None
    return phrases


def parse(line: str, more: Set[str] = frozenset()) -> Triple:
    """Split a line into its three sentences and check their slots. Raises `DataError`.

    Args: more: kinds of nouns besides those of the tables.
    """
    kinds = nouns().keys() | more
    columns = line.split("\t")
    if len(columns) != 3 or not all(columns):
        raise DataError(f"{len(columns)} columns instead of English, German and French")
    for column in columns:
        if column != " ".join(column.split()):
            raise DataError(f"stray spaces in {column!r}")
        if re.search(r"[{}]", SLOT.sub("", column)):
            raise DataError(f"a damaged slot in {column!r}")
    slots = [
        sorted({_identity(slot) + (slot[4] or "") for slot in SLOT.finditer(column)})
        for column in columns
    ]
    if slots[0] != slots[1] or slots[0] != slots[2]:
        raise DataError(f"slots differ between languages: {slots}")
    for match in (match for column in columns for match in SLOT.finditer(column)):
        name = match[2]
        known = (
            name in kinds if match[1] else name in VALUES or name in slot_lists() or name == "adj"
        )
        if not known:
            raise DataError(f"unknown slot {match[0]}")
    if any("{adj" in column for column in columns):
        _subject(columns[0])
    return columns[0], columns[1], columns[2]


def _identity(slot: re.Match[str]) -> str:
    return f"{slot[2]}{slot[3]}"


def _subject(column: str) -> str:
    """Return the noun slot that {adj} agrees with: the first. Raises `DataError`."""
    for slot in SLOT.finditer(column):
        if slot[1]:
            return _identity(slot)
    raise DataError(f"no noun for {{adj}} in {column!r}")


def phrasebook_pairs(
    phrases: Iterable[Triple], src: str, tgt: str, *, copies: int = 30, seed: int = 11
) -> list[Pair]:
    """Return distinct pairs: plain lines once, lines with slots up to `copies` times.

    Some are repeated as people type them (see `_hasty`).

    Raises: `DataError` for a language that the phrasebook does not have.
    """
    if not {src, tgt} <= set(LANGUAGES) or src == tgt:
        raise DataError(f"the phrasebook has {', '.join(LANGUAGES)}, not {src}-{tgt}")
    rng = random.Random(seed)
    first, second = LANGUAGES.index(src), LANGUAGES.index(tgt)
    phrases = list(phrases)
    lower = {word for phrase in phrases for word in re.findall(r" ([a-z]+)", phrase[0])}
    made: dict[Pair, None] = {}
    for phrase in phrases:
        for _ in range(copies if "{" in phrase[0] else 1):
            filled = fill(phrase, rng)
            made[filled[first], filled[second]] = None
            draw = rng.random()
            if draw < HASTY:
                hasty = _hasty(filled, lower if src == "en" and draw < HASTY / 2 else set())
                made[hasty[first], hasty[second]] = None
    return list(made)


def _hasty(sentences: Triple, lower: Set[str]) -> Triple:
    """Leave out the full stop, and an English sentence's capital if its first word allows it."""
    english, german, french = (re.sub(r" ?[.!]$", "", sentence) for sentence in sentences)
    if english.split()[0].lower() in lower:
        english = english[0].lower() + english[1:]
    return english, german, french


def fill(
    phrase: Triple, rng: random.Random, given: Mapping[str, Sequence[Noun]] | None = None, *,
    marked: bool = False,
) -> Triple:  # fmt: skip
    """Fill the slots of a phrase, with the nouns `given` by kind or those of the tables.

    Args: marked: leave U+0001 before and U+0002 after every value.
    """
    if "{" not in phrase[0]:
        return phrase
    values: dict[str, Value] = {}

    for slot in SLOT.finditer(phrase[0]):
        for key, choices in _choices(slot, phrase[0], given or nouns(), rng):
            while key not in values:
                value = choices()
                # Slots of a kind get different values.
                if value not in values.values():
                    values[key] = value
    filled = [_fill_column(phrase[index], index, values) for index in range(3)]
    finish = str if marked else _plain
    return _english(filled[0], finish), _german(filled[1], finish), _french(filled[2], finish)


def _choices(
    slot: re.Match[str], column: str, known: Mapping[str, Sequence[Noun]], rng: random.Random
) -> Iterator[tuple[str, Callable[[], Value]]]:
    """Yield the values that a slot needs, by key, and how to draw one."""
    key = _identity(slot)
    if slot[1]:
        yield key, lambda: rng.choice(known[slot[2]])
    if slot[4] or slot[2] == "adj":
        kind = slot[2] if slot[4] else _subject(column).rstrip("0123456789")
        fitting = [each for each in adjectives() if kind in each.kinds]
        yield key + (slot[4] or ""), lambda: rng.choice(fitting)
    elif not slot[1]:
        yield key, lambda: _value(slot[2], column, rng)


def _value(name: str, column: str, rng: random.Random) -> Triple:
    if name in slot_lists():
        return rng.choice(slot_lists()[name])
    value = VALUES[name](rng)
    if name in ("time", "hour") and _TWELVE_HOURS.search(column):
        while int(value[0].partition(":")[0]) > 11:
            value = VALUES[name](rng)
    return value


def _fill_column(column: str, language: int, values: Mapping[str, Value]) -> str:
    subject = values.get(_subject(column)) if "{adj" in column else None

    def text(slot: re.Match[str]) -> str:
        value = values[_identity(slot)]
        if isinstance(value, Noun):
            article, case = cast(Article, slot[1]), cast(Case, slot[5] or "nom")
            extra = values.get(f"{_identity(slot)}+adj") if slot[4] else None
            adjective = extra if isinstance(extra, Adjective) else None
            found = (
                value.english(article, adjective),
                value.german(article, case, adjective),
                value.french(article, adjective),
            )[language]
        elif isinstance(value, Adjective):
            feminine = isinstance(subject, Noun) and subject.fr_gender == "f"
            found = (value.en, value.de, value.fr_f if feminine else value.fr)[language]
        else:
            found = value[language]
        before = column[: slot.start()]
        if not before or re.search(r"[.!?] $", before):
            found = found[0].upper() + found[1:]
        return f"{_LEFT}{found}{_RIGHT}"

    return SLOT.sub(text, column)


def _english(text: str, finish: Callable[[str], str]) -> str:
    # "An 8", "an old dog": before a slot the first letter or digit decides.
    text = re.sub(rf"\b([Aa]) {_LEFT}(?=[aeiouAEIOU]|8|1[18]\b)", rf"\1n {_LEFT}", text)
    return finish(text).replace(".m..", ".m.")


def _german(text: str, finish: Callable[[str], str]) -> str:
    """Contract "zu dem" to "zum"; names in -s have an apostrophe: "Hans' Auto"."""
    text = _PREPOSITION.sub(lambda found: _CONTRACTED.get(found[1] + found[2], found[0]), text)
    return finish(re.sub(rf"([sxzß]){_RIGHT}s\b", r"\1'", text))


_PREPOSITION = re.compile(rf"\b(zu|in|an|von|bei) {_LEFT}(de[mr]|das) ")
_CONTRACTED = {
    "zudem": "zum ", "zuder": "zur ", "indem": "im ", "indas": "ins ", "andem": "am ",
    "andas": "ans ", "vondem": "vom ", "beidem": "beim ",
}  # fmt: skip


def _french(text: str, finish: Callable[[str], str]) -> str:
    text = re.sub(rf"\b([Dd])e {_LEFT}le ", rf"\1u {_LEFT}", text)
    text = re.sub(rf"([àÀ]) {_LEFT}le ", lambda m: f"{'A' if m[1] == 'À' else 'a'}u {_LEFT}", text)

    def elided(match: re.Match[str]) -> str:
        # The h of a name is pronounced, except for a few French ones.
        mute = match[2].startswith(_MUTE) if match[2][0] == "H" else elides(match[2])
        return f"{match[1]}'{match[2]}" if mute else match[0]

    text = re.sub(rf"\b([Dd]|[Qq]u|[Jj]usqu)e{_RIGHT}? {_LEFT}([^{_RIGHT}]+)", elided, text)
    return re.sub(r"\b1 heures\b", "1 heure", finish(text))


#: French names with a mute h.
_MUTE = ("Hél", "Henri", "Hugo", "Hubert")


def _plain(text: str) -> str:
    return text.replace(_LEFT, "").replace(_RIGHT, "")
