"""The glossary: each term in a sentence or two, with the paper's section.

Pages explain a term beside a control with `help=term("entropy")`, and link the terms in a text to
their entries with `linked("Score in nats.", "score", "nats")`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import quote


@dataclass(frozen=True)
class Term:
    """One entry."""

    name: str  # in lower case, except for acronyms
    text: str  # one or two sentences of Markdown
    section: str = ""  # of the paper; "" if it is not in the paper
    equation: str = ""  # LaTeX, "" without one
    page: str = ""  # url_path of a page that shows it; "" if none does
    also: tuple[str, ...] = ()  # synonyms that a search finds

    @property
    def address(self) -> str:
        """The entry's address, relative to every page; the Glossary page shows it first."""
        return f"glossary?word={quote(self.name)}"


@dataclass(frozen=True)
class Explanation:
    """The text behind "What is this?" on a page."""

    text: str = ""  # Markdown
    links: tuple[str, ...] = ()  # words of the text that lead to the glossary
    #: terms, questions: names of entries that follow it
    terms: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()


_HERE = Path(__file__).parent
_SAID = tomllib.loads((_HERE / "explanations.toml").read_text("utf-8"))
#: Hints by name, each for a "mouse" and for "touch".
HINTS: dict[str, dict[str, str]] = _SAID.pop("hints")
EXPLANATIONS = {page: Explanation(**said) for page, said in _SAID.items()}
_TABLES = tomllib.loads((_HERE / "glossary.toml").read_text("utf-8"))


def _read(table: str) -> list[Term]:
    return [Term(**{**entry, "also": tuple(entry.get("also", ()))}) for entry in _TABLES[table]]


#: All entries in alphabetical order.
TERMS: tuple[Term, ...] = tuple(sorted(_read("term"), key=lambda entry: entry.name.lower()))

#: Questions that are asked again and again, named by the question.
QUESTIONS: tuple[Term, ...] = tuple(_read("question"))

_BY_NAME = {entry.name.lower(): entry for entry in (*TERMS, *QUESTIONS)}


def find_term(name: str) -> Term:
    """Return the entry of this name, in any case. Raises `KeyError` if there is none."""
    return _BY_NAME[name.lower()]


@cache
def term(name: str) -> str:
    """Return an entry as the Markdown of a help text: definition, equation and section."""
    entry = find_term(name)
    parts = [entry.text]
    if entry.equation:
        parts.append(f"$${entry.equation}$$")
    if entry.section:
        parts.append(f"Section {entry.section} of the paper.")
    parts.append(f"[In the glossary]({entry.address})")
    return "\n\n".join(parts)


def named_term(word: str) -> Term | None:
    """Return the entry whose name, or whose synonym alone, `word` is in any case; None without."""
    wanted = word.strip(" `").lower()
    if wanted in _BY_NAME:
        return _BY_NAME[wanted]
    entries = [entry for entry in TERMS if wanted in map(str.lower, entry.also)]
    return entries[0] if len(entries) == 1 else None


#: What stands in a text for itself: code, links, formulas.
_LITERAL = r'(?P<fence>`+).+?(?P=fence)|\[[^\]]*\]\([^)"]*(?:"[^"]*")?\)|\$[^$]*\$'


def linked(text: str, *words: str) -> str:
    """Link the first mention of each of these words of a Markdown text to its glossary entry.

    A word that the text lacks changes nothing; one of several letters is found in any case. The
    link's tooltip is the definition. It opens in a tab of its own, so that the page stays as it is.

    Raises: `KeyError` for a word that the glossary lacks.
    """
    for word in words:
        entry = named_term(word)
        if entry is None:
            raise KeyError(word)
        tip = entry.text.replace("`", "").replace('"', "'")
        found = re.compile(
            rf"(?P<word>(?<![\w`]){re.escape(word)}(?![\w`]))|{_LITERAL}",
            re.IGNORECASE if len(word) > 1 else 0,
        )
        for match in found.finditer(text):
            if match["word"]:
                link = f'[{match["word"]}]({entry.address} "{tip}")'
                text = text[: match.start()] + link + text[match.end() :]
                break
    return text


def word_start(tokens: Iterable[str]) -> str:
    """Return a sentence on the mark of a word's start, "" if no token bears it."""
    if not any("▁" in token for token in tokens):
        return ""
    return linked("`_` marks the start of a word.", "`_`")


def search_terms(query: str, entries: Sequence[Term] = TERMS) -> Sequence[Term]:
    """Return the entries that contain every word of a query, matches in names first."""
    asked = query.lower().replace("-", " ").split()
    if not asked:
        return entries

    def rank(entry: Term) -> int:
        names = " ".join((entry.name, *entry.also)).lower().replace("-", " ")
        text = f"{names} {entry.text} {entry.section}".lower().replace("-", " ")
        if names.startswith(" ".join(asked)):
            return 0
        if all(word in names for word in asked):
            return 1
        return 2 if all(word in text for word in asked) else 3

    ranked = [(rank(entry), entry) for entry in entries]
    return [entry for place, entry in sorted(ranked, key=lambda pair: pair[0]) if place < 3]
