"""A measurement of what layers cost, as it is stored. Nothing here imports PyTorch."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args

import numpy as np

from transformer.errors import InputError
from transformer.measures.layer_costs import LayerKind, Reals, Shape

#: The measurement that comes with the project.
SHIPPED = Path(__file__).with_name("complexity.json")

#: Version of the file.
FORMAT = 1


@dataclass(frozen=True)
class Provenance:
    """Where a measurement comes from.

    Attributes:
        command: that repeats it.  date: of its end, UTC, ISO 8601.
        processor: name of what ran the layers.  cores: that the process could use.
        threads: of PyTorch.  torch: its version.  load: mean number of busy processes in the minute
            before the start, None if unknown.
        held: in bytes, the limit for one layer.
    """

    command: str
    date: str
    processor: str
    cores: int
    threads: int
    torch: str
    load: float | None
    held: int


@dataclass(frozen=True)
class Cell:
    """One layer at one shape.

    Attributes:
        kind, n, d: see `Shape`.
        bytes: held by tensors at once during the forward pass, beside weights and input.
        seconds: of one forward pass, by round; empty if the layer would have held too much.
    """

    kind: LayerKind
    n: int
    d: int
    bytes: int
    seconds: tuple[float, ...]


@dataclass(frozen=True)
class Measurement:
    """All cells, and their provenance.

    Attributes:
        lengths, widths: every n and d, rising.
        kernel, window: see `Shape`.
        cells: each kind at each shape.
    """

    made: Provenance
    lengths: tuple[int, ...]
    widths: tuple[int, ...]
    kernel: int
    window: int
    cells: tuple[Cell, ...]

    def cell(self, kind: LayerKind, n: int, d: int) -> Cell:
        """Return one cell. Raises `KeyError` if there is none."""
        for each in self.cells:
            if (each.kind, each.n, each.d) == (kind, n, d):
                return each
        raise KeyError((kind, n, d))

    def shape(self, n: int, d: int) -> Shape:
        """Return a shape with this measurement's kernel and window."""
        return Shape(n, d, self.kernel, self.window)

    def times(self, kind: LayerKind, d: int) -> tuple[Reals, Reals]:
        """Return the times at width d: lengths [m] and seconds [m, rounds]."""
        cells = [self.cell(kind, n, d) for n in self.lengths]
        timed = [each for each in cells if each.seconds]
        return np.array([float(each.n) for each in timed]), np.array([c.seconds for c in timed])

    def across(self, kind: LayerKind, n: int) -> tuple[Reals, Reals]:
        """Return the times at length n: widths [m] and seconds [m, rounds]."""
        cells = [self.cell(kind, n, d) for d in self.widths]
        timed = [each for each in cells if each.seconds]
        return np.array([float(each.d) for each in timed]), np.array([c.seconds for c in timed])

    @property
    def rounds(self) -> int:
        """Return how often each cell was timed."""
        return max(len(each.seconds) for each in self.cells)

    def to_json(self) -> str:
        """Write the file's text, one line a cell."""
        head = {"format": FORMAT, **{k: v for k, v in asdict(self).items() if k != "cells"}}
        lines = ",\n  ".join(json.dumps(asdict(each)) for each in self.cells)
        return json.dumps(head, indent=1)[:-2] + f',\n "cells": [\n  {lines}\n ]\n}}\n'

    @classmethod
    def from_json(cls, text: str) -> Measurement:
        """Read what `to_json` wrote. Raises `InputError` for anything else."""
        try:
            values: dict[str, Any] = json.loads(text)
            if values.pop("format") != FORMAT:
                raise ValueError("another version")
            cells = tuple(
                Cell(**{**each, "seconds": tuple(map(float, each["seconds"]))})
                for each in values.pop("cells")
            )
            read = cls(
                made=Provenance(**values.pop("made")),
                lengths=tuple(values.pop("lengths")),
                widths=tuple(values.pop("widths")),
                cells=cells,
                **values,
            )
            kinds: tuple[LayerKind, ...] = get_args(LayerKind)
            for kind in kinds:
                for n in read.lengths:
                    for d in read.widths:
                        read.cell(kind, n, d)
            if {len(each.seconds) for each in cells} - {0, read.rounds}:
                raise ValueError("rounds of different length")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise InputError(f"not a measurement of layers: {error}") from None
        return read


@cache
def shipped() -> Measurement:
    """Return the measurement that comes with the project."""
    return Measurement.from_json(SHIPPED.read_text("utf-8"))
