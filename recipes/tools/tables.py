"""Word lists and frames of the synthetic text, tab-separated files beside the recipes."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import cast

from transformer.training.data import DataError, read_lines

#: The project's own phrasebook; `slots/` has one list per slot, `tables/` the rest.
FOLDER = Path(__file__).parents[1] / "phrasebook"

#: The same text in English, German and French.
Triple = tuple[str, str, str]


@cache
def table(name: str, columns: int) -> tuple[tuple[str, ...], ...]:
    """Read the rows of `tables/NAME.tsv`. Raises `DataError` for a row of another width."""
    return _rows(FOLDER / "tables" / f"{name}.tsv", columns)


@cache
def column(name: str) -> tuple[str, ...]:
    """Read `tables/NAME.tsv`, a word a line."""
    return tuple(word for (word,) in table(name, 1))


def triples(name: str) -> tuple[Triple, ...]:
    """Read `tables/NAME.tsv`, three languages a line."""
    return cast(tuple[Triple, ...], table(name, 3))


@cache
def slot_lists() -> dict[str, tuple[Triple, ...]]:
    """Return the lists of words and clauses in `slots/` by the name of their slot."""
    files = sorted((FOLDER / "slots").glob("*.tsv"))
    return {file.stem: cast(tuple[Triple, ...], _rows(file, 3, filled=True)) for file in files}


def _rows(file: Path, columns: int, filled: bool = False) -> tuple[tuple[str, ...], ...]:
    """Read a tab-separated file; `filled` refuses empty cells. Raises `DataError`."""
    rows = [tuple(line.split("\t")) for line in read_lines(file)]
    for number, row in enumerate(rows, 1):
        if len(row) != columns or (filled and not all(row)):
            raise DataError(f"{file}: line {number}: {len(row)} columns instead of {columns}")
    return tuple(rows)
