"""The glossary: each term in a sentence or two, with the paper's section.

Pages explain a term beside a control with `help=term("entropy")`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Term:
    """One entry.

    Attributes:
        name: in lower case, except for acronyms.
        text: one or two sentences of Markdown.
        section: of the paper; "" if it is not in the paper.
        equation: LaTeX, "" without one.
        page: url_path of a page that shows it; "" if none does.
        also: synonyms that a search finds.
    """

    name: str
    text: str
    section: str = ""
    equation: str = ""
    page: str = ""
    also: tuple[str, ...] = ()


_TABLES = tomllib.loads(Path(__file__).with_name("glossary.toml").read_text("utf-8"))


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


def term(name: str) -> str:
    """Return an entry as the Markdown of a help text: definition, equation and section."""
    entry = find_term(name)
    parts = [entry.text]
    if entry.equation:
        parts.append(f"$${entry.equation}$$")
    if entry.section:
        parts.append(f"Section {entry.section} of the paper.")
    return "\n\n".join(parts)


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
