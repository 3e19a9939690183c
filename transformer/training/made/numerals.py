"""Numbers in words, from 1 to 99,999."""

from __future__ import annotations

_ENGLISH_WORDS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen
"""
_GERMAN_WORDS = """
null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn
sechzehn siebzehn achtzehn neunzehn
"""
_FRENCH_WORDS = """
zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize
dix-sept dix-huit dix-neuf
"""
_TENS = """
twenty thirty forty fifty sixty seventy eighty ninety
zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig
vingt trente quarante cinquante soixante soixante quatre-vingt quatre-vingt
"""
_ENGLISH, _GERMAN, _FRENCH = (
    words.split() for words in (_ENGLISH_WORDS, _GERMAN_WORDS, _FRENCH_WORDS)
)
#: From twenty; French counts on from sixty and eighty.
_ENGLISH_TENS, _GERMAN_TENS, _FRENCH_TENS = (
    ["", "", *line.split()] for line in _TENS.strip().splitlines()
)


def spelled(number: int) -> tuple[str, str, str]:
    """Return a number in English, German and French words."""
    if not 0 < number < 100_000:
        raise ValueError(f"{number} is not from 1 to 99,999")
    german = _german(number)
    for word in ("hundert", "tausend"):
        if german.startswith(f"ein{word}"):
            german = german.removeprefix("ein")
    return _english(number), german, _french(number)


def _english(number: int) -> str:
    if number < 20:
        return _ENGLISH[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return _ENGLISH_TENS[tens] + (f"-{_ENGLISH[ones]}" if ones else "")
    size, word = (1000, "thousand") if number >= 1000 else (100, "hundred")
    many, rest = divmod(number, size)
    joint = " and " if rest < 100 else " "
    return f"{_english(many)} {word}" + (joint + _english(rest) if rest else "")


def _german(number: int) -> str:
    if number < 20:
        return _GERMAN[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        one = "ein" if ones == 1 else _GERMAN[ones]
        return (f"{one}und" if ones else "") + _GERMAN_TENS[tens]
    size, word = (1000, "tausend") if number >= 1000 else (100, "hundert")
    many, rest = divmod(number, size)
    before = "ein" if many == 1 else _german(many)
    return before + word + (_german(rest) if rest else "")


def _french(number: int) -> str:
    if number < 20:
        return _FRENCH[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        if tens in (7, 9):
            ones += 10
        if not ones:
            return _FRENCH_TENS[tens] + ("s" if tens == 8 else "")
        joint = " et " if ones in (1, 11) and tens < 8 else "-"
        return _FRENCH_TENS[tens] + joint + _FRENCH[ones]
    size, word = (1000, "mille") if number >= 1000 else (100, "cent")
    many, rest = divmod(number, size)
    if not rest and word == "cent" and many > 1:
        word = "cents"
    parts = [_french(many)] if many > 1 else []
    if word == "mille" and parts and many % 100 in (0, 80):
        # "Cent" and "quatre-vingt" have no s before "mille".
        parts = [parts[0].removesuffix("s")]
    return " ".join([*parts, word, *([_french(rest)] if rest else [])])
