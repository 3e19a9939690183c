"""Word links as text: Pharaoh lines such as `0-0 1-2`, and sentence pairs with their links."""

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from transformer.measures.words import Gold, Link
from transformer.search.reader import MAX_CHARACTERS
from transformer.types import InputError

#: `3-4` is a sure link; `3p4` and `3?4` are possible ones.
_LINK = re.compile(r"([0-9]{1,6})([-p?])([0-9]{1,6})")

#: Limits of a visitor's text: sentence pairs, and characters in total.
MOST_PAIRS, MOST_CHARACTERS = 500, 20_000


class Linked(NamedTuple):
    """A sentence, its translation, and their links."""

    source: str
    target: str
    gold: Gold


def read_links(line: str, first: int = 0) -> Gold:
    """Read the links of one sentence pair, source word first.

    Args: first: number of the first word, 0 or 1.

    Raises: `InputError` naming an invalid link, or one counted from another number.
    """
    sure: set[Link] = set()
    possible: set[Link] = set()
    for text in line.split():
        match = _LINK.fullmatch(text)
        if match is None:
            raise InputError(f"{text[:20]!r} is not a link such as 3-4 or 3p4")
        link = int(match[1]) - first, int(match[3]) - first
        if min(link) < 0:
            raise InputError(f"{text!r} has word 0; words that count from 1 have none")
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return Gold(frozenset(sure), frozenset(possible))


def turned(gold: Gold) -> Gold:
    """Return the links with source and target swapped."""
    sure, possible = (
        frozenset((target, source) for source, target in links)
        for links in (gold.sure, gold.possible)
    )
    return Gold(sure, possible)


def written(links: Collection[Link]) -> str:
    """Return links as a Pharaoh line, counted from 0, in the order of the target."""
    return " ".join(f"{s}-{t}" for s, t in sorted(links, key=lambda link: (link[1], link[0])))


def read_linked(text: str, first: int = 0) -> Iterator[Linked]:
    """Yield sentence pairs with links from lines of `source ||| target ||| 0-0 1-2`.

    Tabs may stand for the bars. Blank lines are left out.

    Raises: `InputError` naming the line and the fault.
    """
    if len(text) > MOST_CHARACTERS:
        raise InputError(f"{len(text):,} characters; at most {MOST_CHARACTERS:,}")
    count = 0
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        if not line.strip():
            continue
        columns = [part.strip() for part in line.split("\t" if "\t" in line else "|||")]
        try:
            if len(columns) != 3 or not all(columns[:2]):
                raise InputError("expected source ||| target ||| links such as 0-0 1-2")
            if max(map(len, columns)) > MAX_CHARACTERS:
                raise InputError(f"more than {MAX_CHARACTERS:,} characters")
            gold = read_links(columns[2], first)
            check_links(gold, *(len(column.split()) for column in columns[:2]))
        except InputError as error:
            raise InputError(f"line {number}: {error}") from None
        if (count := count + 1) > MOST_PAIRS:
            raise InputError(f"line {number}: more than {MOST_PAIRS} sentence pairs")
        yield Linked(" ".join(columns[0].split()), " ".join(columns[1].split()), gold)
    if not count:
        raise InputError("no sentence pairs; expected source ||| target ||| links such as 0-0 1-2")


def check_links(gold: Gold, n_sources: int, n_targets: int) -> None:
    """Raise `InputError` if a link leads outside sentences of these lengths."""
    for source, target in sorted(gold.possible):
        if source >= n_sources or target >= n_targets:
            raise InputError(
                f"a link joins word {source + 1} to word {target + 1}, but the sentences have "
                f"{n_sources} and {n_targets} words"
            )
