"""The glossary: a sentence or two on each term, with the section of the paper.

Pages explain a term beside a control with `help=term("entropy")`, and link the terms in a text to
their entries with `linked("Score in nats.", "score", "nats")`.
"""

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from urllib.parse import quote

from transformer.text.marks import UNKNOWN, is_unknown


@dataclass(frozen=True)
class Term:
    """One entry."""

    name: str  # in lower case, except for acronyms
    text: str  # one or two sentences of Markdown
    section: str = ""  # of the paper, or ""
    equation: str = ""  # LaTeX, or ""
    page: str = ""  # url_path of a page that shows it, or ""
    also: tuple[str, ...] = ()  # synonyms

    @property
    def address(self) -> str:
        """Address relative to any page; the Glossary page shows this entry first."""
        return f"glossary?word={quote(self.name)}"


@dataclass(frozen=True)
class Explanation:
    """The text behind "What is this?" on a page."""

    text: str = ""  # Markdown
    links: tuple[str, ...] = ()  # words of the text that link to the glossary
    #: terms, questions: names of glossary entries below the text
    terms: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()

    @cached_property
    def linked(self) -> str:
        """The text with its links."""
        return linked(self.text, *self.links)


_HERE = Path(__file__).parent
_SAID = tomllib.loads((_HERE / "explanations.toml").read_text("utf-8"))
#: Hints by name, for "mouse" and "touch".
HINTS: dict[str, dict[str, str]] = _SAID.pop("hints")
#: Label, glossary entry, and what a cell of a map shows and what not, by measure.
CELL_TEXTS: dict[str, dict[str, str]] = _SAID.pop("cells")
EXPLANATIONS = {page: Explanation(**said) for page, said in _SAID.items()}
_TABLES = tomllib.loads((_HERE / "glossary.toml").read_text("utf-8"))


def _read(table: str) -> list[Term]:
    return [Term(**{**entry, "also": tuple(entry.get("also", ()))}) for entry in _TABLES[table]]


#: All entries in alphabetical order.
TERMS: tuple[Term, ...] = tuple(sorted(_read("term"), key=lambda entry: entry.name.lower()))

#: Frequent questions, named by the question.
QUESTIONS: tuple[Term, ...] = tuple(_read("question"))

_BY_NAME = {entry.name.lower(): entry for entry in (*TERMS, *QUESTIONS)}


def find_term(name: str) -> Term:
    """Return the entry with this name, ignoring case. Raises `KeyError` if it does not exist."""
    return _BY_NAME[name.lower()]


@cache
def term(name: str) -> str:
    """Return an entry as Markdown for a help tooltip: definition, equation and section."""
    entry = find_term(name)
    parts = [entry.text]
    if entry.equation:
        parts.append(f"$${entry.equation}$$")
    if entry.section:
        parts.append(f"Section {entry.section} of the paper.")
    parts.append(f"[In the glossary]({entry.address})")
    return "\n\n".join(parts)


def named_term(word: str) -> Term | None:
    """Return the entry with this name or unique synonym, ignoring case, or None."""
    name = word.strip(" `").lower()
    if name in _BY_NAME:
        return _BY_NAME[name]
    entries = [entry for entry in TERMS if name in map(str.lower, entry.also)]
    return entries[0] if len(entries) == 1 else None


#: Markdown that stays unchanged: code, links, formulas.
_LITERAL = r'(?P<fence>`+).+?(?P=fence)|\[[^\]]*\]\([^)"]*(?:"[^"]*")?\)|\$[^$]*\$'


def linked(text: str, *words: str) -> str:
    """Link the first occurrence of each word in a Markdown text to its glossary entry.

    Words of two letters or more match in any case. The link's tooltip is the definition; the link
    opens in a new tab, so that the page keeps its state.

    Raises: `KeyError` for a word without a glossary entry.
    """
    for word in words:
        entry = named_term(word)
        if entry is None:
            raise KeyError(word)
        tip = entry.text.replace("`", "").replace('"', "'")
        pattern = re.compile(
            rf"(?P<word>(?<![\w`]){re.escape(word)}(?![\w`]))|{_LITERAL}",
            re.IGNORECASE if len(word) > 1 else 0,
        )
        for match in pattern.finditer(text):
            if match["word"]:
                link = f'[{match["word"]}]({entry.address} "{tip}")'
                text = text[: match.start()] + link + text[match.end() :]
                break
    return text


def word_start(tokens: Iterable[str]) -> str:
    """Return sentences that explain the marks of word starts and unknown text, if there are any."""
    tokens = [*tokens]
    start = linked("`_` marks the start of a word.", "`_`") if "▁" in "".join(tokens) else ""
    unknown = f"`{UNKNOWN}` marks text outside the vocabulary." * any(map(is_unknown, tokens))
    return f"{start} {unknown}".strip()


def search_terms(query: str, entries: Sequence[Term] = TERMS) -> Sequence[Term]:
    """Return the entries that contain every word of a query, name matches first."""
    words = query.lower().replace("-", " ").split()
    if not words:
        return entries

    def rank(entry: Term) -> int:
        names = " ".join((entry.name, *entry.also)).lower().replace("-", " ")
        text = f"{names} {entry.text} {entry.section}".lower().replace("-", " ")
        if names.startswith(" ".join(words)):
            return 0
        if all(word in names for word in words):
            return 1
        return 2 if all(word in text for word in words) else 3

    ranked = [(rank(entry), entry) for entry in entries]
    return [entry for place, entry in sorted(ranked, key=lambda pair: pair[0]) if place < 3]
