"""Values for the slots of a phrasebook line: names, numbers, amounts, times and dates.

Each is drawn at random and written as English, German and French write it.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from transformer.training.data import DataError
from transformer.training.synthetic.tables import Triple, column, slot_lists, table


def _same(text: str) -> Triple:
    return text, text, text


_ONSET_LIST = "b c d f g j k l m n p r s t v w z br ch cl dr fl gr kr pl sh st th tr"
_ONSETS = tuple(_ONSET_LIST.split())
_NUCLEI = ("a", "e", "i", "o", "u", "a", "e", "i", "o", "ai", "ea", "ia", "io", "oo")
_CODAS = ("", "", "", "l", "n", "r", "s", "m", "t", "k", "nd", "rt", "x", "ck")
#: Ends of invented names of one syllable.
_ENDS = ("n", "l", "rt", "nk", "sk", "ra", "no")


def first_name(rng: random.Random) -> str:
    """Draw a first name; every fifth is invented."""
    return invented(rng) if rng.random() < 0.2 else rng.choice(column("first_names"))


def surname(rng: random.Random) -> str:
    """Draw a surname; every fifth is invented."""
    return invented(rng) if rng.random() < 0.2 else rng.choice(column("surnames"))


def city(rng: random.Random) -> Triple:
    """Draw a city in English, German and French; every tenth is invented."""
    if rng.random() < 0.1:
        return _same(invented(rng))
    english, german, french = rng.choice(table("cities", 3))
    return english, german, french


def invented(rng: random.Random) -> str:
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
    for word in ("hundert", "tausend"):
        if german.startswith(f"ein{word}"):
            german = german.removeprefix("ein")
    return num2words(number).replace(",", ""), german, num2words(number, lang="fr")


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
    day, (english, german, french) = rng.randint(1, 28), rng.choice(slot_lists()["month"])
    return f"{english} {day}", f"{day}. {german}", f"{'1er' if day == 1 else day} {french}"


def _nth(day: int) -> str:
    ending = "th" if 11 <= day % 100 <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{ending}"


def _nthdate(rng: random.Random) -> Triple:
    day, (english, german, french) = rng.randint(1, 28), rng.choice(slot_lists()["month"])
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
    number = rng.choice(
        (
            rng.choice(slot_lists()["word"]),
            rng.choice(slot_lists()["word"]),
            _same(str(rng.randint(13, 60))),
        )
    )
    english, german, french = rng.choice(
        (("minutes", "Minuten", "minutes"), ("hours", "Stunden", "heures"),
         ("days", "Tage", "jours"), ("weeks", "Wochen", "semaines"),
         ("months", "Monate", "mois"), ("years", "Jahre", "ans"))
    )  # fmt: skip
    ending = "n" if dative and german[-1] == "e" else ""
    return f"{number[0]} {english}", f"{number[1]} {german}{ending}", f"{number[2]} {french}"


def _daypart(rng: random.Random) -> Triple:
    day = rng.choice(slot_lists()["day"])
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
    last = surname(rng)
    english, german, french = rng.choice(
        (("Mr.", "Herr", "Monsieur"), ("Mrs.", "Frau", "Madame"), ("Mr", "Herr", "Monsieur"),
         ("Mrs", "Frau", "Madame"), ("Ms.", "Frau", "Madame"), ("Miss", "Frau", "Mademoiselle"),
         ("Professor", "Professor", "professeur"), ("Dr.", "Doktor", "docteur"))
    )  # fmt: skip
    if french.islower() and not called:
        french = f"le {french}"
    if oblique and german == "Herr":
        german = "Herrn"
    return f"{english} {last}", f"{german} {last}", f"{french} {last}"


#: Values of the slots other than nouns.
VALUES: dict[str, Callable[[random.Random], Triple]] = {
    "name": lambda rng: _same(first_name(rng)),
    "surname": lambda rng: _same(surname(rng)),
    "city": city,
    "n": lambda rng: _same(str(rng.randint(2, 99))),
    "hour": lambda rng: _same(str(rng.randint(1, 12))),
    "year": lambda rng: _same(str(rng.randint(1700, 2049))),
    "number": _number,
    "clock": _clock,
    "afternoon": _afternoon,
    "nthdate": _nthdate,
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
