"""Exhibits of the page on table 1, with the programs that make their numbers."""

from collections.abc import Sequence
from typing import get_args

import numpy as np

from figures.exhibit import Exhibit, Series
from transformer.config import ModelConfig
from transformer.evaluation.complexity_maps import map_bytes
from transformer.evaluation.complexity_records import Measurement, shipped
from transformer.measures.layer_costs import (
    LAYER_COSTS,
    PATHS,
    LayerKind,
    PathKind,
    counted,
    path_length,
)
from transformer.types import Reals

#: Title of an axis by quantity, and the unit in seconds, bytes or operations.
AXES = {
    "time": ("milliseconds", 1e-3),
    "memory": ("megabytes", 1e6),
    "counted": ("million multiply-adds", 1e6),
}


def lines_of(measurement: Measurement, quantity: str, d: int) -> dict[str, Reals]:
    """Return a quantity by kind of layer at width d, [lengths], NaN where not measured."""
    unit = AXES[quantity][1]
    return {
        LAYER_COSTS[kind].name: np.array(
            [_value(measurement, quantity, kind, n, d) for n in measurement.lengths]
        )
        / unit
        for kind in LAYER_COSTS
    }


def _value(measurement: Measurement, quantity: str, kind: LayerKind, n: int, d: int) -> float:
    cell = measurement.cell(kind, n, d)
    if quantity == "counted":
        return float(counted(kind, measurement.shape(n, d)))
    if not cell.seconds:
        return float("nan")
    return float(np.median(cell.seconds)) if quantity == "time" else float(cell.bytes)


def layer_costs(d: int, measured: str = "") -> Exhibit:
    """Return the time of one forward pass of layers of width `d` by length as a figure.

    Args: measured: a measurement as JSON; by default the one that comes with the project.
    """
    measurement = Measurement.from_json(measured) if measured else shipped()
    lines = lines_of(measurement, "time", d)
    logs = {name: np.log10(values) for name, values in lines.items()}
    lengths = tuple(map(str, measurement.lengths))
    return Exhibit(
        name=f"layer-costs-{d}",
        title=f"Time of one forward pass, width {d}",
        caption=f"Median of {measurement.rounds} rounds on {measurement.made.said}, as log10 of "
        "milliseconds.",
        parts=(Series("log10 of milliseconds", lengths, logs, "length n", "log10 ms"),),
        arrays={"milliseconds": np.stack(list(lines.values()))},
    )


def path_lengths(n: int, kernel: int, window: int) -> Exhibit:
    """Return the path length by distance as a figure, for each kind of layer.

    Args: n: positions.  kernel: of convolutions.  window: of restricted self-attention.
    """
    kinds: tuple[PathKind, ...] = get_args(PathKind)
    sizes = {"convolution": kernel, "dilated": kernel, "restricted": window}
    lengths = np.array(
        [[path_length(kind, far, sizes.get(kind, 0)) for far in range(1, n)] for kind in kinds]
    )
    lines = {PATHS[kind][0]: row for kind, row in zip(kinds, lengths, strict=True)}
    return Exhibit(
        name="path-lengths",
        title=f"Layers or steps between two positions, k = {kernel}, r = {window}",
        caption="Layers or steps on the shortest path of a signal, by distance (table 1).",
        parts=(Series("Path length", np.arange(1, n), lines, "distance", "layers or steps"),),
        arrays={"lengths": lengths},
    )


def bytes_of_maps(config: str, lengths: Sequence[int]) -> Exhibit:
    """Return the bytes of all maps of a model, its config given as JSON, by length as a figure."""
    by_length = [map_bytes(ModelConfig.from_json(config), n) for n in lengths]
    megabytes = np.array([[kinds[kind] / 1e6 for kinds in by_length] for kind in by_length[0]])
    lines = dict(zip(by_length[0], megabytes, strict=True))
    x = tuple(map(str, lengths))
    return Exhibit(
        name="bytes-of-maps",
        title="Bytes of all attention maps",
        caption="Memory of all heads' weights, for as many source as target tokens, in float32.",
        parts=(Series("Attention maps", x, lines, "tokens", "megabytes", "bar"),),
        arrays={"megabytes": megabytes},
    )
