"""Summary of a measurement: exponents, and where one kind of layer gets slower than another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from transformer.experiments.records import Measurement
from transformer.measures.layer_costs import (
    LAYER_COSTS,
    Estimate,
    LayerKind,
    counted,
    crossing,
    fit_exponent,
)

#: Self-attention, and the recurrent layer that it is compared with.
COMPARED: tuple[tuple[LayerKind, LayerKind], ...] = (
    ("products", "recurrent"),
    ("attention", "recurrent"),
    ("attention", "lstm"),
)

#: Exponents in n are fitted to this many of the largest lengths.
_LARGEST = 4


@dataclass(frozen=True)
class Row:
    """Exponents of one kind of layer; None where fewer than two sizes were measured.

    Attributes:
        in_n: of time, at one width, over the largest lengths.
        in_d: of time, at the largest length.
        expected: of the multiply-adds counted, in n over the same lengths.
        memory: of the bytes held, in n over the same lengths.
    """

    kind: LayerKind
    in_n: Estimate | None
    in_d: Estimate | None
    expected: float | None
    memory: float | None


def large(made: Measurement) -> tuple[int, ...]:
    """Return the lengths over which exponents in n are fitted."""
    return made.lengths[-_LARGEST:]


def exponents(made: Measurement, d: int) -> list[Row]:
    """Return the exponents of every kind at width d."""
    return [_row(made, kind, d) for kind in LAYER_COSTS]


def _row(made: Measurement, kind: LayerKind, d: int) -> Row:
    n, seconds = made.times(kind, d)
    chosen = np.isin(n, large(made))
    n, seconds = n[chosen], seconds[chosen] if len(n) else seconds
    widths, across = made.across(kind, made.lengths[-1])
    in_d = fit_exponent(widths, across) if len(widths) > 1 else None
    if len(n) < 2:
        return Row(kind, None, in_d, None, None)
    counts = [float(counted(kind, made.shape(int(each), d))) for each in n]
    held = [float(made.cell(kind, int(each), d).bytes) for each in n]
    expected, memory = (
        fit_exponent(n, np.array(values)[:, None], draws=1).value for values in (counts, held)
    )
    return Row(kind, fit_exponent(n, seconds), in_d, expected, memory)


def crossings(made: Measurement, first: LayerKind, second: LayerKind) -> dict[int, Estimate]:
    """Return by width d the length from which `first` is slower than `second`, see `crossing`."""
    found = {}
    for d in made.widths:
        (n, a), (m, b) = made.times(first, d), made.times(second, d)
        both = np.intersect1d(n, m)
        if len(both) > 1:
            found[d] = crossing(both, a[np.isin(n, both)], b[np.isin(m, both)])
    return found
