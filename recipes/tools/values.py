"""Values for the slots of a phrasebook line: names, numbers, amounts, times and dates.

Each is drawn at random and written as English, German and French write it.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from recipes.tools.tables import Triple, column, slot_lists, table, triples
from transformer.training.data import DataError

_ONSET_LIST = "b c d f g j k l m n p r s t v w z br ch cl dr fl gr kr pl sh st th tr"
_ONSETS = _ONSET_LIST.split()
_NUCLEI = ("a", "e", "i", "o", "u", "a", "e", "i", "o", "ai", "ea", "ia", "io", "oo")
_CODAS = ("", "", "", "l", "n", "r", "s", "m", "t", "k", "nd", "rt", "x", "ck")
#: Ends of invented names of one syllable.
_ENDS = ("n", "l", "rt", "nk", "sk", "ra", "no")


def _same(text: object) -> Triple:
    return str(text), str(text), str(text)


def _marked(number: str) -> Triple:
    """Write an English number with each language's marks: "1,234.5", "1.234,5", "1 234,5"."""
    german = number.translate(str.maketrans(",.", ".,"))
    return number, german, german.replace(".", " ")


def _name(rng: random.Random, names: str) -> str:
    """Draw a name from a table; every fifth is invented."""
    return _invented(rng) if rng.random() < 0.2 else rng.choice(column(names))


def _city(rng: random.Random) -> Triple:
    """Draw a city; every tenth is invented."""
    return _same(_invented(rng)) if rng.random() < 0.1 else rng.choice(triples("cities"))


def _invented(rng: random.Random) -> str:
    """Make up a name of one to three syllables."""
    syllables = rng.choice((1, 2, 2, 2, 3))
    parts = [rng.choice(_ONSETS) + rng.choice(_NUCLEI) for _ in range(syllables)]
    return ("".join(parts) + rng.choice(_CODAS if syllables > 1 else _ENDS)).capitalize()


def spelled(number: int) -> Triple:
    """Return a number from 1 to 99,999 in English, German and French words.

    Raises: `DataError` without the package num2words, which only this text needs.
    """
    if not 0 < number < 100_000:
        raise ValueError(f"{number} is not from 1 to 99,999")
    try:
        from num2words import num2words
    except ImportError:
        raise DataError("the phrasebook needs num2words: pip install num2words") from None
    german = num2words(number, lang="de")
    if german.startswith(("einhundert", "eintausend")):
        german = german.removeprefix("ein")
    return num2words(number).replace(",", ""), german, num2words(number, lang="fr")


def _big(rng: random.Random) -> Triple:
    number = rng.choice((rng.randint(10, 999) * 10 ** rng.randint(1, 2), rng.randint(100, 99_999)))
    return _marked(f"{number:,}")


def _price(rng: random.Random) -> Triple:
    whole, cents = rng.randint(1, 99), rng.choice((50, 99, 95, 20, 80, 25, rng.randint(1, 99)))
    return _marked(f"{whole}.{cents:02}")


def _time(rng: random.Random) -> Triple:
    hour, minute = rng.randint(1, 23), rng.choice((15, 30, 45, 5 * rng.randint(1, 11)))
    return f"{hour}:{minute:02}", f"{hour}:{minute:02}", f"{hour} h {minute:02}"


def _date(rng: random.Random, ordinal: bool = False) -> Triple:
    day, (english, german, french) = rng.randint(1, 28), rng.choice(slot_lists()["month"])
    ending = "th" if 11 <= day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    forms = (f"the {day}{ending} of {english}", f"{day} {english}", f"{english} {day}{ending}")
    return (
        rng.choice(forms) if ordinal else f"{english} {day}",
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
    minutes = spelled(rng.choice((5, 10, 20)))
    return rng.choice((
        (f"{this[0]} o'clock", f"{'ein' if hour == 1 else this[1]} Uhr", french),
        (f"half past {this[0]}", f"halb {following[1]}", f"{french} et demie"),
        (f"a quarter past {this[0]}", f"Viertel nach {this[1]}", f"{french} et quart"),
        (f"a quarter to {following[0]}", f"Viertel vor {following[1]}", f"{later} moins le quart"),
        (f"{minutes[0]} past {this[0]}", f"{minutes[1]} nach {this[1]}", f"{french} {minutes[2]}"),
        (f"{minutes[0]} to {following[0]}", f"{minutes[1]} vor {following[1]}",
         f"{later} moins {minutes[2]}"),
    ))  # fmt: skip


def _number(rng: random.Random) -> Triple:
    two, three = rng.randint(13, 99), rng.randint(101, 999)
    number = rng.choice((two, two, 100 * rng.randint(1, 9), three, 1000 * rng.randint(1, 20)))
    # A final one would take the gender of what is counted.
    return spelled(number + 1 if number % 10 == 1 else number)


def _money(rng: random.Random) -> Triple:
    """Draw an amount as people type it: "€3.50", "800 euros", "$200"."""
    whole = rng.choice((rng.randint(2, 99), rng.randint(100, 999), 50 * rng.randint(2, 19)))
    cents = _price(rng)
    sign, *words = rng.choice(table("currencies", 4))
    english, german, french = rng.choice((_same(whole), _same(whole), cents))
    if rng.random() < 0.5:
        return f"{english} {words[0]}", f"{german} {words[1]}", f"{french} {words[2]}"
    return f"{sign}{english}", f"{german} {sign}", f"{french} {sign}"


def _count(rng: random.Random) -> Triple:
    """Draw a number of two to four digits, with each language's mark from a thousand on."""
    number = rng.choice(
        (rng.randint(11, 99), rng.randint(100, 999), rng.randint(1000, 9999),
         10 * rng.randint(2, 99), 1000 * rng.randint(1, 9))
    )  # fmt: skip
    return _marked(f"{number:,}")


def _phone(rng: random.Random) -> Triple:
    groups = rng.choice(((3, 4), (3, 3), (4, 4), (2, 3, 3), (3, 3, 4), (2, 2, 2, 2)))
    return _same(" ".join(str(rng.randint(10 ** (n - 1), 10**n - 1)) for n in groups))


def _span(rng: random.Random, dative: bool = False) -> Triple:
    """Draw a length of time: "three weeks"; German in the accusative, or in the dative."""
    words = slot_lists()["word"]
    number = rng.choice((rng.choice(words), rng.choice(words), _same(rng.randint(13, 60))))
    english, german, french = rng.choice(triples("units_of_time"))
    ending = "n" if dative and german[-1] == "e" else ""
    return f"{number[0]} {english}", f"{number[1]} {german}{ending}", f"{number[2]} {french}"


def _daypart(rng: random.Random) -> Triple:
    day, part = rng.choice(slot_lists()["day"]), rng.choice(triples("parts_of_day"))
    return f"{day[0]} {part[0]}", f"{day[1]}{part[1]}", f"{day[2]} {part[2]}"


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
    """Draw a person with a title: one who is spoken about, or one who is addressed."""
    last = _name(rng, "surnames")
    english, german, french = rng.choice(triples("titles"))
    if french.islower() and not called:
        french = f"le {french}"
    if oblique and german == "Herr":
        german = "Herrn"
    return f"{english} {last}", f"{german} {last}", f"{french} {last}"


#: Values of the slots other than nouns.
VALUES: dict[str, Callable[[random.Random], Triple]] = {
    "name": lambda rng: _same(_name(rng, "first_names")),
    "surname": lambda rng: _same(_name(rng, "surnames")),
    "city": _city,
    "n": lambda rng: _same(rng.randint(2, 99)),
    "hour": lambda rng: _same(rng.randint(1, 12)),
    "year": lambda rng: _same(rng.randint(1700, 2049)),
    "number": _number,
    "clock": _clock,
    "afternoon": _afternoon,
    "nthdate": lambda rng: _date(rng, ordinal=True),
    "big": _big,
    "decimal": lambda rng: _marked(f"{rng.randint(1, 199) / 10:.1f}"),
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
}
