"""The project's English is spelled right: texts on screen, messages, comments and documents.

`words.txt` adds to the dictionary: terms of the field, names, British spellings, and
words of example sentences.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from spellchecker import SpellChecker

from tests.forks import ROOT

OWN = Path(__file__).with_name("words.txt")
CODE = ("app.py", "benchmarks", "figures", "headlight", "pages", "transformer", "ui")
TEXT = ("*.md", "docs/**/*.md", "ui/**/*.toml")

#: Mostly words and codes of other languages.
FOREIGN = ("recipes/tools/", "ui/core/examples.toml", "ui/core/mistakes.toml")

#: Code, formulas, links, slots of format strings and tags within a text.
NO_WORDS = re.compile(
    r"```.*?```|`[^`]*`|\$[^$]*\$|\w+://\S+|\{[^}]*\}|<[^>]*>|(?<=\])\([^)]*\)|\\\w+", re.DOTALL
)
#: Comments and strings of a program.
PARTS = re.compile(
    r'''\bb"[^"\n]*"|(?P<comment>#(?!!)[^\n]*)|"""(?P<text>.*?)"""'''
    r"""|(?P<quote>["'])(?P<line>(?:\\.|[^\\\n])*?)(?P=quote)""",
    re.DOTALL,
)
WORD = re.compile(r"(?<![\w./_'-])[A-Za-z][a-z]+(?:'[a-z]+)?(?![\w_/'(=]|\.[a-z])")


def paths() -> Iterator[Path]:
    for name in CODE:
        found = ROOT / name
        yield from [found] if found.is_file() else found.rglob("*.py")
    for pattern in TEXT:
        yield from ROOT.glob(pattern)


def texts(path: Path) -> Iterator[str]:
    """Return whole documents, and comments and multi-word strings of programs."""
    source = path.read_text("utf-8")
    if path.suffix != ".py":
        yield source
        return
    for found in PARTS.finditer(re.sub(r'(?<!")"\n\s+[rf]*"(?!")', "", source)):
        if found["comment"]:
            yield found["comment"].split("# noqa")[0].split("# type:")[0].split("# fmt:")[0]
        elif " " in (text := found["text"] or found["line"] or ""):
            yield re.sub(r"\\[nt]", " ", text)


def words(text: str) -> set[str]:
    return {found[0].lower() for found in WORD.finditer(NO_WORDS.sub(" ", text))}


def test_every_word_is_in_the_dictionary_or_the_list() -> None:
    known = set(OWN.read_text("utf-8").split())
    dictionary = SpellChecker(language="en")
    places: dict[str, str] = {}
    for path in paths():
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(FOREIGN):
            places |= dict.fromkeys(set().union(*map(words, texts(path))), name)
    wrong = {word: places[word] for word in dictionary.unknown(places.keys() - known)}
    assert not wrong, f"{wrong}: mend these, or add them to tests/words.txt"
    assert "atention" in dictionary.unknown(words("An atention map."))


def test_summary_lines_name_the_thing_first() -> None:
    opening = re.compile(r'"""(?:What|Who|Whose|Which|Where|How|When|Let)\b.*')
    wrong = {
        path.relative_to(ROOT).as_posix(): found
        for path in (*paths(), *(ROOT / "tests").rglob("*.py"))
        if path.suffix == ".py" and (found := opening.findall(path.read_text("utf-8")))
    }
    assert not wrong
