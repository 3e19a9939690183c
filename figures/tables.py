"""Export an exhibit's numbers: CSV in long format, and NPZ.

Tokens are exact in the NPZ. In the CSV an apostrophe, the usual spreadsheet escape, precedes a
token that a spreadsheet would run as a formula, or that a reader would take for a number or a
missing value even in quotes; `unguard` removes it.
"""

import io
import re
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from figures.exhibit import Exhibit, Numbers, Panel, Series

COLUMNS = ("panel", "row", "row_token", "column", "column_token", "value")

#: Maximum rows in a CSV; the NPZ has no limit.
MOST_ROWS = 2_000_000

# Quotes do not make a text of these. Further apostrophes keep the marker reversible.
_NOT_TEXT = re.compile(
    r"""'*(?:
    [\t\r\n] | \s*[=+\-@＝＋－＠]  # starts a formula, full-width signs included
    | \s*[.,]?\d[\W\de]*\Z  # a number, date or time
    | (?: null | none | nan | n/?a | <na> | \#na | \#n/a(?:\ n/a)? | 1\.\#(?:ind|qnan)
        | inf | infinity | true | false )\s*\Z  # read as missing, infinite or a Boolean
    )""",
    re.VERBOSE | re.IGNORECASE,
)


class TooLargeError(ValueError):
    """Too many numbers for a table; the message names the number and an alternative."""


def n_numbers(exhibit: Exhibit) -> int:
    """Return the number of rows of an exhibit's CSV."""
    return sum(
        part.values.size if isinstance(part, Panel) else len(part.lines) * len(part.x)
        for part in exhibit.parts
    )


def to_csv(exhibit: Exhibit) -> bytes:
    """Return all parts as one CSV with a line per number; rows and columns are 1-based.

    The lines of a series are rows, its points columns. Text is quoted and, where `guard` says so,
    marked; numbers are the shortest decimals that read back as the same number; missing values are
    empty. A byte-order mark tells spreadsheets that the file is UTF-8.

    Raises: `TooLargeError` for more than `MOST_ROWS` numbers.
    """
    count = n_numbers(exhibit)
    if count > MOST_ROWS:
        raise TooLargeError(
            f"{count:,} numbers are more than a CSV of {MOST_ROWS:,} rows holds; take the NPZ"
        )
    text = io.StringIO(newline="")
    text.write(",".join(map(_quoted, COLUMNS)) + "\r\n")
    for part in exhibit.parts:
        text.writelines(_rows(part))
    return text.getvalue().encode("utf-8-sig", errors="replace")


def to_npz(exhibit: Exhibit) -> bytes:
    """Return all parts and arrays at full precision as an NPZ that `np.load` opens without pickle.

    Part n of the exhibit is `part_n` (a panel's values [rows, columns], or a series' lines
    [lines, points]) with `part_n_title`, `part_n_rows` and `part_n_columns`. `title`, `caption` and
    `snippet` are text; the arrays have their own names.
    """
    stored: dict[str, Any] = {
        "title": exhibit.title, "caption": exhibit.legend, "snippet": exhibit.program,
    }  # fmt: skip
    for number, part in enumerate(exhibit.parts, start=1):
        values, rows, columns = table(part)
        stored[f"part_{number}"], stored[f"part_{number}_title"] = values, part.title
        stored[f"part_{number}_rows"], stored[f"part_{number}_columns"] = rows, columns
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, value in (stored | dict(exhibit.arrays)).items():
            # Without a timestamp, equal numbers give equal files.
            entry = zipfile.ZipInfo(f"{name}.npy")
            entry.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(entry, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(value), allow_pickle=False)
    return file.getvalue()


def guard(text: str) -> str:
    """Prefix an apostrophe to text that a spreadsheet or pandas reads as anything but text."""
    return f"'{text}" if _NOT_TEXT.match(text) else text


def unguard(text: str) -> str:
    """Reverse `guard`."""
    return text[1:] if text.startswith("'") and _NOT_TEXT.match(text[1:]) else text


def table(part: Panel | Series) -> tuple[Numbers, tuple[str, ...], tuple[str, ...] | Numbers]:
    """Return a part as values [n, m], row names [n], and column names or numbers [m]."""
    if isinstance(part, Panel):
        return part.values, part.rows, part.columns
    return np.stack(list(part.lines.values())), tuple(part.lines), part.x


def _quoted(text: str) -> str:
    return '"' + guard(text).replace('"', '""') + '"'


def _rows(part: Panel | Series) -> Iterator[str]:
    values, rows, columns = table(part)
    title = _quoted(part.title)
    names = [*map(_quoted, columns)] if isinstance(columns, tuple) else decimals(columns)
    for i, (row, line) in enumerate(zip(rows, values, strict=True), start=1):
        token = _quoted(row)
        for j, value in enumerate(decimals(line)):
            yield f"{title},{i},{token},{j + 1},{names[j]},{value}\r\n"


def decimals(values: Numbers) -> list[str]:
    """Return the shortest decimals that are exact in the array's precision, "" for NaN."""
    texts: list[str] = values.astype(str).tolist()
    return ["" if text == "nan" else text for text in texts]
