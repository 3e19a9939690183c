"""The contents of a figure before export: panels, series, arrays and a snippet; and its tables.

`figures.paper` exports an `Exhibit` as PNG, SVG, PDF, CSV, NPZ and Python, `ui.export.html` as a
page that opens offline. Text is data: tokens are exactly as the tokenizer returned them.

Tokens are exact in the NPZ. In the CSV an apostrophe, the usual spreadsheet escape, precedes a
token that a spreadsheet would run as a formula, or that a reader would take for a number or a
missing value even in quotes; `unguard` removes it.
"""

import io
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from figures.labels import counted

Numbers = NDArray[Any]
Scale = Literal["attention", "diverging"]
Mark = Literal["line", "bar", "point"]

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,98}[a-z0-9])?")


@dataclass(frozen=True, eq=False)
class Panel:
    """A matrix with row and column names.

    Raises: `ValueError` if shapes and names do not agree, or weights lie outside 0 to 1.
    """

    title: str  # above the matrix
    values: Numbers  # [n, m] real numbers; NaN if missing
    rows: tuple[str, ...]  # [n] tokens, top to bottom
    columns: tuple[str, ...]  # [m] tokens, left to right
    #: row_title, column_title: axis names ("query: translation", "key: source")
    row_title: str = ""
    column_title: str = ""
    #: "attention" is 0 to 1 in every figure; "diverging" is symmetric about 0
    scale: Scale = "attention"
    #: name and unit, "" for attention weights; diverging panels of one quantity share a scale
    quantity: str = ""
    short: str = ""  # title for narrow panels
    missing: str = ""  # words on the missing values
    rings: tuple[int, ...] = ()  # [n] a column of every row, to be ringed

    @classmethod
    def of_heads(
        cls, title: str, values: Numbers, scale: Scale = "attention", quantity: str = ""
    ) -> Self:
        """Return the panel of a value for every layer and head, [L, H]."""
        layers, heads = map(counted, values.shape)
        return cls(title, values, layers, heads, "layer", "head", scale, quantity)

    def __post_init__(self) -> None:
        expected = (len(self.rows), len(self.columns))
        if self.values.shape != expected or 0 in expected:
            raise ValueError(
                f"panel {self.title!r}: values of shape {self.values.shape} for {expected[0]} rows "
                f"and {expected[1]} columns; expected {expected}, at least one of each"
            )
        _check_real(self.title, self.values)
        if self.scale == "attention":
            known = self.values[~np.isnan(self.values)]
            if known.size and not (known.min() >= -1e-3 and known.max() <= 1 + 1e-3):
                raise ValueError(f"panel {self.title!r}: weights lie outside 0 to 1")


@dataclass(frozen=True, eq=False)
class Series:
    """Lines or bars over one axis.

    Raises: `ValueError` if the lengths do not agree.
    """

    title: str  # above the plot
    x: tuple[str, ...] | Numbers  # [n] numbers, or labels (a tuple of text, in this order)
    lines: Mapping[str, Numbers]  # name to [n] numbers
    #: x_title, y_title: axis names
    x_title: str = ""
    y_title: str = ""
    mark: Mark = "line"  # bars of several lines are side by side
    most: float = 0  # that the y axis reaches at least

    def __post_init__(self) -> None:
        if not self.lines or not len(self.x):
            raise ValueError(f"series {self.title!r}: expected at least one line and one point")
        if not isinstance(self.x, tuple) and self.x.ndim != 1:
            raise ValueError(f"series {self.title!r}: x of shape {self.x.shape}; expected one axis")
        for name, values in self.lines.items():
            if values.shape != (len(self.x),):
                raise ValueError(
                    f"series {self.title!r}: line {name!r} of shape {values.shape}; "
                    f"expected {(len(self.x),)} as in x"
                )
            _check_real(self.title, values)


@dataclass(frozen=True, eq=False)
class Offline:
    """A canvas view for a page without a server: a component and its message."""

    component: str  # folder in `ui/components`, such as "player"
    message: bytes  # the component's `data` (see `ui.components.packing`)
    #: messages that replace it, by the choice of the view before it as compact JSON ("[0,2]")
    follows: Mapping[str, bytes] = field(default_factory=lambda: MappingProxyType({}))
    title: str = ""  # heading above this view


_FIND = """# Run this with the Python of Headlight's .venv, anywhere: .venv/bin/python {name}.py
import os
import sys

sys.path += [os.getcwd(), os.path.dirname(sys.prefix)]  # the folder of .venv is Headlight's

"""


@dataclass(frozen=True, eq=False)
class Exhibit:
    """A figure that can be downloaded.

    Raises: `ValueError` if the name is not a valid file stem, or there are no parts.
    """

    name: str  # file stem of a-z, 0-9, dots and hyphens: "cross-attention-layer-2-head-3"
    title: str  # one line above the figure
    caption: str  # one or two sentences below it
    parts: tuple[Panel | Series, ...]  # in reading order
    #: further arrays of the NPZ; the snippet defines variables with these names and values
    arrays: Mapping[str, Numbers] = field(default_factory=lambda: MappingProxyType({}))
    snippet: str = ""  # Python program that computes the arrays through the public API
    offline: Offline | tuple[Offline, ...] | None = None  # interactive views, in reading order
    columns: int = 0  # parts per row of the picture; 0 chooses automatically
    #: origin of the figure for its caption: "Sentence", "Checkpoint", ...
    facts: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or ".." in self.name:
            raise ValueError(
                f"name {self.name!r} is not a valid file stem: use a to z, 0 to 9, dots and hyphens"
            )
        if not self.parts:
            raise ValueError(f"exhibit {self.name!r} has no parts")
        for name, values in self.arrays.items():
            if not name.isidentifier() or name.startswith("part_"):
                raise ValueError(f"array name {name!r}: expected a Python name, not part_...")
            if values.dtype.kind not in "biufU":
                raise ValueError(f"array {name!r} of {values.dtype}: expected numbers or text")

    @property
    def legend(self) -> str:
        """The caption and the facts, for readers who see only the figure."""
        sentences = (
            f"{name}: {fact}{'' if fact.rstrip('”').endswith(('.', '!', '?')) else '.'}"
            for name, fact in self.facts.items()
        )
        return " ".join([self.caption, *sentences])

    @property
    def program(self) -> str:
        """The snippet as a file that runs from any folder, or "" without a snippet."""
        return self.snippet and _FIND.format(name=self.name) + self.snippet

    @property
    def views(self) -> tuple[Offline, ...]:
        """The interactive views; may be empty."""
        views = self.offline or ()
        return views if isinstance(views, tuple) else (views,)


def file_stem(*words: object) -> str:
    """Return a valid `Exhibit.name` from any words, or "figure" if none has a letter or digit.

    Other characters become hyphens: `file_stem("Cross-attention", "layer", 2)`.
    """
    joined = re.sub(r"[^a-z0-9]+", "-", " ".join(map(str, words)).lower())
    return joined[:90].strip("-") or "figure"


def _check_real(title: str, values: Numbers) -> None:
    if values.dtype.kind not in "biuf":
        raise ValueError(f"part {title!r}: values of {values.dtype}; expected real numbers")
    if np.isinf(values).any():
        raise ValueError(f"part {title!r}: infinite values; use NaN for missing ones")


@dataclass(frozen=True, eq=False)
class Lines(Panel):
    """Sentences one above another, with light from one word on the words of the first.

    `values` [1, m] are the weights of the light on the m tokens of the first sentence.
    """

    lines: tuple[tuple[str, tuple[str, ...]], ...] = ()  # name and tokens; "▁" begins a word
    marked: frozenset[tuple[int, int]] = frozenset()  # lines and tokens in the accent colour
    light: tuple[int, int] | None = None  # line and token that the light comes from
    trail: tuple[int, ...] = ()  # for each token of the light's line, one of the first: thin lines
    hidden: frozenset[tuple[int, int]] = frozenset()  # lines and tokens that only keep their place

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.lines or self.lines[0][1] != self.columns:
            raise ValueError(f"lines {self.title!r}: the columns are not the first line's tokens")


End = Literal["", "finished", "cut"]


@dataclass(frozen=True, eq=False)
class Graph(Panel):
    """A search tree: a row of `values` per node, `rows` are tokens, `columns` quantities.

    Columns "step" and "rank", both 1-based, place a node; "log p so far" and "score" are shown
    below its token.

    Raises: `ValueError` as for `Panel`, or if a node precedes its parent.
    """

    parents: tuple[int, ...] = ()  # [n] row of the parent, -1 for the root
    lines: tuple[int, ...] = ()  # [n] 2 on the winning path, 1 on other finished paths, else 0
    beam: int = 1  # ranks below it are drawn tall
    kept: tuple[bool, ...] = ()  # [n] True for nodes in the beam, which have a box
    ends: tuple[End, ...] = ()  # [n] end of a path at this node, or ""
    root: str = "<s>"  # token before the first step

    def __post_init__(self) -> None:
        super().__post_init__()
        n = len(self.rows)
        if {*map(len, (self.parents, self.lines, self.kept, self.ends))} != {n}:
            raise ValueError(f"graph {self.title!r}: every attribute must have {n} values")
        if not all(-1 <= parent < row for row, parent in enumerate(self.parents)):
            raise ValueError(f"graph {self.title!r}: a node comes before its parent")
        for name in ("step", "rank", "log p so far", "score"):
            if name not in self.columns:
                raise ValueError(f"graph {self.title!r}: no column {name!r}")

    def column(self, name: str) -> list[float]:
        """Return one quantity of every node."""
        column: list[float] = self.values[:, self.columns.index(name)].tolist()
        return column


COLUMNS = ("panel", "row", "row_token", "column", "column_token", "value")

#: Maximum rows in a CSV; the NPZ has no limit.
MOST_ROWS = 2_000_000

# Quotes do not turn these into text. Further apostrophes keep the marker reversible.
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
            f"{count:,} numbers exceed a CSV's limit of {MOST_ROWS:,} rows; use the NPZ instead"
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
