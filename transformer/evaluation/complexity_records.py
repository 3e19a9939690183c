"""Stored measurements of layers and their summary. Nothing here imports PyTorch."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Self, get_args

import numpy as np

from transformer.measures import layer_costs
from transformer.types import InputError, Reals, literals

#: The measurement that comes with the project.
SHIPPED = Path(__file__).with_name("complexity.json")

#: Version of the file.
FORMAT = 1

#: Share of the processors that other work may take in a measurement that is stored.
MOST_LOAD = 0.1


@dataclass(frozen=True)
class Provenance:
    """Machine, software and time of a measurement."""

    command: str  # repeats the measurement
    date: str  # end of the measurement, UTC, ISO 8601
    processor: str  # name of the CPU or GPU
    cores: int  # available to the process
    threads: int  # PyTorch threads
    torch: str  # PyTorch version
    #: processors taken by other work; in the file of 23 November 2026, the load average before it
    load: float
    held: int  # memory limit of one layer in bytes

    @property
    def said(self) -> str:
        """Machine, date and load as text."""
        cores = f"{self.threads} of {self.cores} cores"
        return f"{self.processor}, {cores}, {self.date[:10]}, at a load of {self.load:g}"


@dataclass(frozen=True)
class Cell:
    """One layer at one shape."""

    #: kind, n, d: see `Shape`
    kind: layer_costs.LayerKind
    n: int
    d: int
    bytes: int  # peak bytes of tensors in the forward pass, without weights and input
    #: seconds of one forward pass by round; empty if the layer exceeds the memory limit
    seconds: tuple[float, ...]


@dataclass(frozen=True)
class Measurement:
    """All measured layers and their provenance."""

    made: Provenance
    #: lengths, widths: every n and d, rising
    lengths: tuple[int, ...]
    widths: tuple[int, ...]
    #: kernel, window: see `Shape`
    kernel: int
    window: int
    cells: tuple[Cell, ...]  # each kind at each shape

    @literals
    def cell(self, kind: layer_costs.LayerKind, n: int, d: int) -> Cell:
        """Return one cell. Raises `KeyError` if there is none."""
        for cell in self.cells:
            if (cell.kind, cell.n, cell.d) == (kind, n, d):
                return cell
        raise KeyError((kind, n, d))

    def shape(self, n: int, d: int) -> layer_costs.Shape:
        """Return a shape with this measurement's kernel and window."""
        return layer_costs.Shape(n, d, self.kernel, self.window)

    @literals
    def times(self, kind: layer_costs.LayerKind, d: int) -> tuple[Reals, Reals]:
        """Return the times at width d: lengths [m] and seconds [m, rounds]."""
        timed = [cell for n in self.lengths if (cell := self.cell(kind, n, d)).seconds]
        return np.array([float(cell.n) for cell in timed]), np.array([c.seconds for c in timed])

    @property
    def refusal(self) -> str | None:
        """One-line reason for not storing the measurement, or None."""
        load, cores, most = self.made.load, self.made.cores, MOST_LOAD * self.made.cores
        if load <= most:
            return None
        return f"other work kept {load:g} processors busy, at most {most:g} of {cores} is allowed"

    @property
    def rounds(self) -> int:
        """Number of rounds in which each cell was timed."""
        return max(len(cell.seconds) for cell in self.cells)

    def to_json(self) -> str:
        """Return the file's text, one line per cell."""
        head = {"format": FORMAT, **{k: v for k, v in asdict(self).items() if k != "cells"}}
        lines = ",\n  ".join(json.dumps(asdict(cell)) for cell in self.cells)
        return json.dumps(head, indent=1)[:-2] + f',\n "cells": [\n  {lines}\n ]\n}}\n'

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the output of `to_json`. Raises `InputError` if it is invalid."""
        try:
            values: dict[str, Any] = json.loads(text)
            if values.pop("format") != FORMAT:
                raise ValueError("another version")
            cells = tuple(
                Cell(**{**cell, "seconds": tuple(map(float, cell["seconds"]))})
                for cell in values.pop("cells")
            )
            read = cls(
                made=Provenance(**values.pop("made")),
                lengths=tuple(values.pop("lengths")),
                widths=tuple(values.pop("widths")),
                cells=cells,
                **values,
            )
            for key in product(get_args(layer_costs.LayerKind), read.lengths, read.widths):
                read.cell(*key)
            if {len(cell.seconds) for cell in cells} - {0, read.rounds}:
                raise ValueError("rounds of different length")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise InputError(f"not a measurement of layers: {error}") from None
        return read


@cache
def shipped() -> Measurement:
    """Return the measurement that comes with the project."""
    return Measurement.from_json(SHIPPED.read_text("utf-8"))


#: Self-attention, and the recurrent layer that it is compared with.
COMPARED: tuple[tuple[layer_costs.LayerKind, layer_costs.LayerKind], ...] = (
    ("products", "recurrent"),
    ("attention", "recurrent"),
    ("attention", "lstm"),
)

#: Exponents in n are fitted to this many of the largest lengths.
_LARGEST = 4


@dataclass(frozen=True)
class Row:
    """Exponents of one kind of layer; None for fewer than two sizes."""

    kind: layer_costs.LayerKind
    lengths: tuple[int, ...]  # fitted lengths n
    widths: tuple[int, ...]  # fitted widths d, at the largest length
    in_n: layer_costs.Estimate | None  # exponent of time in n, at one width
    in_d: layer_costs.Estimate | None  # exponent of time in d
    expected: float | None  # exponent of counted multiply-adds in n
    memory: float | None  # exponent of peak bytes in n


def exponents(timings: Measurement, d: int, lengths: Sequence[int] = ()) -> list[Row]:
    """Return the exponents of all kinds at width d, over `lengths` or the largest lengths."""
    largest = lengths or timings.lengths[-_LARGEST:]
    return [_row(timings, kind, d, largest) for kind in layer_costs.LAYER_COSTS]


def _row(timings: Measurement, kind: layer_costs.LayerKind, d: int, lengths: Sequence[int]) -> Row:
    n, seconds = timings.times(kind, d)
    chosen = np.isin(n, lengths)
    n, seconds = n[chosen], seconds[chosen] if len(n) else seconds
    cells = [timings.cell(kind, timings.lengths[-1], d) for d in timings.widths]
    timed = [cell for cell in cells if cell.seconds]
    widths, across = np.array([float(c.d) for c in timed]), np.array([c.seconds for c in timed])
    in_d = layer_costs.fit_exponent(widths, across) if len(widths) > 1 else None
    sizes = tuple(map(int, n)), tuple(cell.d for cell in timed)
    if len(n) < 2:
        return Row(kind, *sizes, None, in_d, None, None)
    counts = [float(layer_costs.counted(kind, timings.shape(int(length), d))) for length in n]
    held = [float(timings.cell(kind, int(length), d).bytes) for length in n]
    expected, memory = (
        layer_costs.fit_exponent(n, np.array(values)[:, None], draws=1).value
        for values in (counts, held)
    )
    return Row(kind, *sizes, layer_costs.fit_exponent(n, seconds), in_d, expected, memory)


@literals
def crossings(
    timings: Measurement, first: layer_costs.LayerKind, second: layer_costs.LayerKind
) -> dict[int, layer_costs.Estimate]:
    """Return the length at which `first` becomes slower than `second`, by width d."""
    by_width = {}
    for d in timings.widths:
        (n, a), (m, b) = timings.times(first, d), timings.times(second, d)
        both = np.intersect1d(n, m)
        if len(both) > 1:
            by_width[d] = layer_costs.crossing(both, a[np.isin(n, both)], b[np.isin(m, both)])
    return by_width
