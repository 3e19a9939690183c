"""A phrasebook: lines of English, German and French, some with slots that are filled at random.

A slot has the same name in all columns: `{name}`, `{n}`, `{date}` and so on (see `_VALUES`), a noun
with its article (`{the:animal}`; German adds the case, `{the:animal.acc}`), with an adjective
(`{a:animal+adj}`) or as a pronoun (`{it:animal}`), or `{adj}`, an adjective that agrees with the
first noun before it. Words and clauses come from lists in `slots/`, one file a slot: `{beento}`. A
digit makes it another one: `{name2}`. French "de", "à" and "que" before a slot are contracted and
elided: "du chien", "d'Ali"; German "zu dem" is "zum".
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import cache
from pathlib import Path
from typing import cast, get_args

from transformer.training.data import DataError, MissingFileError, Pair, read_lines
from transformer.training.made import names
from transformer.training.made.grammar import Adjective, Article, Case, Noun, elides
from transformer.training.made.nouns import ADJECTIVES, KINDS, NOUNS
from transformer.training.made.numerals import spelled

#: The project's own lines.
FOLDER = Path(__file__).parents[3] / "recipes" / "phrasebook"
#: Lists of words and clauses, named as their slots.
SLOTS = FOLDER / "slots"
LANGUAGES = ("en", "de", "fr")
#: Share of the pairs that come again without a full stop.
HASTY = 0.2

#: A sentence in English, German and French.
Triple = tuple[str, str, str]
#: What fills a slot.
Value = Triple | Noun | Adjective

SLOT = re.compile(
    rf"\{{(?:({'|'.join(get_args(Article))}):)?([a-z]+)(\d?)(\+adj)?(?:\.(acc|dat|gen))?\}}"
)
_TWELVE_HOURS = re.compile(r"\b[ap]\.?m\b")
# Stands before and after a filled slot while its neighbours are put right.
_LEFT, _RIGHT = "\x01", "\x02"

_WORDS = (
    ("two", "zwei", "deux"), ("three", "drei", "trois"), ("four", "vier", "quatre"),
    ("five", "fünf", "cinq"), ("six", "sechs", "six"), ("seven", "sieben", "sept"),
    ("eight", "acht", "huit"), ("nine", "neun", "neuf"), ("ten", "zehn", "dix"),
    ("eleven", "elf", "onze"), ("twelve", "zwölf", "douze"),
)  # fmt: skip
_DAYS = (
    ("Monday", "Montag", "lundi"), ("Tuesday", "Dienstag", "mardi"),
    ("Wednesday", "Mittwoch", "mercredi"), ("Thursday", "Donnerstag", "jeudi"),
    ("Friday", "Freitag", "vendredi"), ("Saturday", "Samstag", "samedi"),
    ("Sunday", "Sonntag", "dimanche"),
)  # fmt: skip
_MONTHS = (
    ("January", "Januar", "janvier"), ("February", "Februar", "février"),
    ("March", "März", "mars"), ("April", "April", "avril"), ("May", "Mai", "mai"),
    ("June", "Juni", "juin"), ("July", "Juli", "juillet"), ("August", "August", "août"),
    ("September", "September", "septembre"), ("October", "Oktober", "octobre"),
    ("November", "November", "novembre"), ("December", "Dezember", "décembre"),
)  # fmt: skip


_ORDINALS = (
    ("second", "zweite", "deuxième"), ("third", "dritte", "troisième"),
    ("fourth", "vierte", "quatrième"), ("fifth", "fünfte", "cinquième"),
    ("sixth", "sechste", "sixième"), ("seventh", "siebte", "septième"),
    ("eighth", "achte", "huitième"), ("ninth", "neunte", "neuvième"),
    ("tenth", "zehnte", "dixième"), ("twelfth", "zwölfte", "douzième"),
)  # fmt: skip


def _same(text: str) -> Triple:
    return text, text, text


def _big(rng: random.Random) -> Triple:
    number = rng.choice((rng.randint(10, 999) * 10 ** rng.randint(1, 2), rng.randint(100, 99_999)))
    grouped = f"{number:,}"
    return grouped, grouped.replace(",", "."), grouped.replace(",", " ")


def _decimal(rng: random.Random) -> Triple:
    number = f"{rng.randint(1, 199) / 10:.1f}"
    return number, number.replace(".", ","), number.replace(".", ",")


def _price(rng: random.Random) -> Triple:
    whole, cents = rng.randint(1, 99), rng.choice((50, 99, 95, 20, 80, 25, rng.randint(1, 99)))
    comma = f"{whole},{cents:02}"
    return f"{whole}.{cents:02}", comma, comma


def _time(rng: random.Random) -> Triple:
    hour, minute = rng.randint(1, 23), rng.choice((15, 30, 45, 5 * rng.randint(1, 11)))
    return f"{hour}:{minute:02}", f"{hour}:{minute:02}", f"{hour} h {minute:02}"


def _date(rng: random.Random) -> Triple:
    day, (english, german, french) = rng.randint(1, 28), rng.choice(_MONTHS)
    return f"{english} {day}", f"{day}. {german}", f"{'1er' if day == 1 else day} {french}"


def _nth(day: int) -> str:
    ending = "th" if 11 <= day % 100 <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{ending}"


def _nthdate(rng: random.Random) -> Triple:
    day, (english, german, french) = rng.randint(1, 28), rng.choice(_MONTHS)
    return (
        rng.choice((f"the {_nth(day)} of {english}", f"{day} {english}", f"{english} {_nth(day)}")),
        f"{day}. {german}",
        f"{'1er' if day == 1 else day} {french}",
    )


def _afternoon(rng: random.Random) -> Triple:
    hour = rng.randint(1, 11)
    return f"{hour} {rng.choice(('p.m.', 'pm'))}", f"{hour + 12} Uhr", f"{hour + 12} heures"


def _clock(rng: random.Random) -> Triple:
    """Spell out a time: "half past seven", "halb acht", "sept heures et demie"."""
    hour = rng.randint(1, 11)
    this, following = spelled(hour), spelled(hour + 1)
    french = f"{this[2]} heure{'s' * (hour > 1)}".replace("un heure", "une heure")
    later = f"{following[2]} heures"
    minutes = rng.choice(((5, "five", "fünf", "cinq"), (10, "ten", "zehn", "dix"),
                          (20, "twenty", "zwanzig", "vingt")))  # fmt: skip
    return rng.choice((
        (f"{this[0]} o'clock", f"{'ein' if hour == 1 else this[1]} Uhr", french),
        (f"half past {this[0]}", f"halb {following[1]}", f"{french} et demie"),
        (f"a quarter past {this[0]}", f"Viertel nach {this[1]}", f"{french} et quart"),
        (f"a quarter to {following[0]}", f"Viertel vor {following[1]}", f"{later} moins le quart"),
        (f"{minutes[1]} past {this[0]}", f"{minutes[2]} nach {this[1]}", f"{french} {minutes[3]}"),
        (f"{minutes[1]} to {following[0]}", f"{minutes[2]} vor {following[1]}",
         f"{later} moins {minutes[3]}"),
    ))  # fmt: skip


def _number(rng: random.Random) -> Triple:
    two, three = rng.randint(13, 99), rng.randint(101, 999)
    number = rng.choice((two, two, 100 * rng.randint(1, 9), three, 1000 * rng.randint(1, 20)))
    # A final one would take the gender of what is counted.
    return spelled(number + 1 if number % 10 == 1 else number)


def _money(rng: random.Random) -> Triple:
    """Draw an amount as people type it: "€3.50", "800 euros", "$200"."""
    whole = str(rng.choice((rng.randint(2, 99), rng.randint(100, 999), 50 * rng.randint(2, 19))))
    cents = _price(rng)
    sign, english, german, french = rng.choice(
        (("€", "euros", "Euro", "euros"), ("€", "euros", "Euro", "euros"),
         ("$", "dollars", "Dollar", "dollars"), ("£", "pounds", "Pfund", "livres"))
    )  # fmt: skip
    amount = rng.choice((_same(whole), _same(whole), cents))
    if rng.random() < 0.5:
        return f"{amount[0]} {english}", f"{amount[1]} {german}", f"{amount[2]} {french}"
    return f"{sign}{amount[0]}", f"{amount[1]} {sign}", f"{amount[2]} {sign}"


def _count(rng: random.Random) -> Triple:
    """Draw a number of two to four digits, with each language's mark from a thousand on."""
    number = rng.choice(
        (rng.randint(11, 99), rng.randint(100, 999), rng.randint(1000, 9999),
         10 * rng.randint(2, 99), 1000 * rng.randint(1, 9))
    )  # fmt: skip
    grouped = f"{number:,}"
    return grouped, grouped.replace(",", "."), grouped.replace(",", " ")


def _phone(rng: random.Random) -> Triple:
    groups = rng.choice(((3, 4), (3, 3), (4, 4), (2, 3, 3), (3, 3, 4), (2, 2, 2, 2)))
    return _same(" ".join(str(rng.randint(10 ** (n - 1), 10**n - 1)) for n in groups))


def _span(rng: random.Random, dative: bool = False) -> Triple:
    """Draw a length of time: "three weeks"; German in the accusative, or in the dative."""
    number = rng.choice((rng.choice(_WORDS), rng.choice(_WORDS), _same(str(rng.randint(13, 60)))))
    english, german, french = rng.choice(
        (("minutes", "Minuten", "minutes"), ("hours", "Stunden", "heures"),
         ("days", "Tage", "jours"), ("weeks", "Wochen", "semaines"),
         ("months", "Monate", "mois"), ("years", "Jahre", "ans"))
    )  # fmt: skip
    ending = "n" if dative and german[-1] == "e" else ""
    return f"{number[0]} {english}", f"{number[1]} {german}{ending}", f"{number[2]} {french}"


def _daypart(rng: random.Random) -> Triple:
    day = rng.choice(_DAYS)
    english, german, french = rng.choice(
        (("morning", "morgen", "matin"), ("afternoon", "nachmittag", "après-midi"),
         ("evening", "abend", "soir"))
    )  # fmt: skip
    return f"{day[0]} {english}", f"{day[1]}{german}", f"{day[2]} {french}"


def _everypart(rng: random.Random) -> Triple:
    english, german, french = _daypart(rng)
    day, part = french.split(" ")
    return f"every {english}", f"jeden {german}", f"tous les {day}s {part}"


def _partclock(rng: random.Random) -> Triple:
    """Draw an hour with its part of the day: "eight o'clock in the evening", "7 a.m."."""
    hour = rng.randint(5, 10)
    english, german, french = spelled(hour)
    if rng.random() < 0.3:
        return f"{hour} {rng.choice(('a.m.', 'am'))}", f"{hour} Uhr", f"{hour} heures"
    part = rng.choice((("morning", "morgens", "matin"), ("evening", "abends", "soir")))
    return (
        f"{english} o'clock in the {part[0]}",
        f"{german} Uhr {part[1]}",
        f"{french} heures du {part[2]}",
    )


def _titled(rng: random.Random, *, called: bool = False, oblique: bool = False) -> Triple:
    """Draw a person with a title: one who is spoken of, or one who is called."""
    surname = names.surname(rng)
    english, german, french = rng.choice(
        (("Mr.", "Herr", "Monsieur"), ("Mrs.", "Frau", "Madame"), ("Mr", "Herr", "Monsieur"),
         ("Mrs", "Frau", "Madame"), ("Ms.", "Frau", "Madame"), ("Miss", "Frau", "Mademoiselle"),
         ("Professor", "Professor", "professeur"), ("Dr.", "Doktor", "docteur"))
    )  # fmt: skip
    if french.islower() and not called:
        french = f"le {french}"
    if oblique and german == "Herr":
        german = "Herrn"
    return f"{english} {surname}", f"{german} {surname}", f"{french} {surname}"


#: What fills the slots that are no nouns.
_VALUES: dict[str, Callable[[random.Random], Triple]] = {
    "name": lambda rng: _same(names.first_name(rng)),
    "surname": lambda rng: _same(names.surname(rng)),
    "city": names.city,
    "n": lambda rng: _same(str(rng.randint(2, 99))),
    "hour": lambda rng: _same(str(rng.randint(1, 12))),
    "year": lambda rng: _same(str(rng.randint(1700, 2049))),
    "number": _number,
    "clock": _clock,
    "afternoon": _afternoon,
    "nth": lambda rng: rng.choice(_ORDINALS),
    "nthdate": _nthdate,
    "word": lambda rng: rng.choice(_WORDS),
    "day": lambda rng: rng.choice(_DAYS),
    "month": lambda rng: rng.choice(_MONTHS),
    "big": _big,
    "decimal": _decimal,
    "price": _price,
    "time": _time,
    "date": _date,
    "money": _money,
    "count": _count,
    "phone": _phone,
    "span": _span,
    "spandat": lambda rng: _span(rng, dative=True),
    "daypart": _daypart,
    "everypart": _everypart,
    "partclock": _partclock,
    "titled": _titled,
    "titleddat": lambda rng: _titled(rng, oblique=True),
    "called": lambda rng: _titled(rng, called=True),
}  # fmt: skip


@cache
def listed() -> dict[str, tuple[Triple, ...]]:
    """Return the lists in `SLOTS` by the name of their slot. Raises `DataError`."""
    found = {}
    for file in sorted(SLOTS.glob("*.tsv")):
        rows = [tuple(line.split("\t")) for line in read_lines(file)]
        for number, row in enumerate(rows, 1):
            if len(row) != 3 or not all(row):
                raise DataError(f"{file}: line {number}: {len(row)} columns instead of 3")
        found[file.stem] = tuple((row[0], row[1], row[2]) for row in rows)
    return found


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


def parse(line: str, kinds: Set[str] = KINDS) -> Triple:
    """Split a line into its three sentences and check their slots. Raises `DataError`."""
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
        known = name in kinds if match[1] else name in _VALUES or name in listed() or name == "adj"
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

    Some come again as people type them (see `_hasty`).

    Raises: `ValueError` for a language that the phrasebook does not have.
    """
    if not {src, tgt} <= set(LANGUAGES) or src == tgt:
        raise ValueError(f"the phrasebook has {', '.join(LANGUAGES)}, not {src}-{tgt}")
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
    """Leave out the full stop, and the capital of an English sentence if its first word allows."""
    english, german, french = (re.sub(r" ?[.!]$", "", sentence) for sentence in sentences)
    if english.split()[0].lower() in lower:
        english = english[0].lower() + english[1:]
    return english, german, french


def fill(phrase: Triple, rng: random.Random, nouns: Mapping[str, Sequence[Noun]] = NOUNS) -> Triple:
    """Fill the slots of a phrase; `nouns` by kind."""
    if "{" not in phrase[0]:
        return phrase
    values: dict[str, Value] = {}

    for slot in SLOT.finditer(phrase[0]):
        for key, choices in _choices(slot, phrase[0], nouns, rng):
            while key not in values:
                value = choices()
                # Slots of a kind get different values.
                if value not in values.values():
                    values[key] = value
    filled = [_fill_column(phrase[index], index, values) for index in range(3)]
    return _english(filled[0]), _german(filled[1]), _french(filled[2])


def _choices(
    slot: re.Match[str], column: str, nouns: Mapping[str, Sequence[Noun]], rng: random.Random
) -> Iterator[tuple[str, Callable[[], Value]]]:
    """Yield the values that a slot needs, by key, and how to draw one."""
    key = _identity(slot)
    if slot[1]:
        yield key, lambda: rng.choice(nouns[slot[2]])
    if slot[4] or slot[2] == "adj":
        kind = slot[2] if slot[4] else _subject(column).rstrip("0123456789")
        fitting = [each for each in ADJECTIVES if kind in each.kinds]
        yield key + (slot[4] or ""), lambda: rng.choice(fitting)
    elif not slot[1]:
        yield key, lambda: _value(slot[2], column, rng)


def _value(name: str, column: str, rng: random.Random) -> Triple:
    if name in listed():
        return rng.choice(listed()[name])
    value = _VALUES[name](rng)
    if name in ("time", "hour") and _TWELVE_HOURS.search(column):
        while int(value[0].partition(":")[0]) > 11:
            value = _VALUES[name](rng)
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


def _english(text: str) -> str:
    # "An 8", "an old dog": before a slot the first letter or digit decides.
    text = re.sub(rf"\b([Aa]) {_LEFT}(?=[aeiouAEIOU]|8|1[18]\b)", rf"\1n {_LEFT}", text)
    return _plain(text).replace(".m..", ".m.")


def _german(text: str) -> str:
    """Contract "zu dem" to "zum"; names in -s have an apostrophe: "Hans' Auto"."""
    text = _PREPOSITION.sub(lambda found: _CONTRACTED.get(found[1] + found[2], found[0]), text)
    return _plain(re.sub(rf"([sxzß]){_RIGHT}s\b", r"\1'", text))


_PREPOSITION = re.compile(rf"\b(zu|in|an|von|bei) {_LEFT}(de[mr]|das) ")
_CONTRACTED = {
    "zudem": "zum ", "zuder": "zur ", "indem": "im ", "indas": "ins ", "andem": "am ",
    "andas": "ans ", "vondem": "vom ", "beidem": "beim ",
}  # fmt: skip


def _french(text: str) -> str:
    text = re.sub(rf"\b([Dd])e {_LEFT}le ", rf"\1u {_LEFT}", text)
    text = re.sub(rf"([àÀ]) {_LEFT}le ", lambda m: f"{'A' if m[1] == 'À' else 'a'}u {_LEFT}", text)

    def elided(match: re.Match[str]) -> str:
        # The h of a name is read, but for a few French ones.
        mute = match[2].startswith(_MUTE) if match[2][0] == "H" else elides(match[2])
        return f"{match[1]}'{match[2]}" if mute else match[0]

    text = re.sub(rf"\b([Dd]|[Qq]u|[Jj]usqu)e{_RIGHT}? {_LEFT}([^{_RIGHT}]+)", elided, text)
    return re.sub(r"\b1 heures\b", "1 heure", _plain(text))


#: French names with a mute h.
_MUTE = ("Hél", "Henri", "Hugo", "Hubert")


def _plain(text: str) -> str:
    return text.replace(_LEFT, "").replace(_RIGHT, "")
