"""Facts of a checkpoint's positions, for their tour (section 3.5)."""

import math

import numpy as np

from figures.exhibit import Panel, Series
from figures.labels import decimal
from transformer.trace import position_vectors
from ui.tours.stops import Scene, StopFacts, fact, numbers

#: Notes before a question if the picture shows other positions than the checkpoint's.
_NOTES = {
    "learned": "This model learned its positions (table 3, row E); use the paper's sines. ",
    "stored": "This model keeps its positions as a table of numbers; use the paper's sines. ",
    "relative": "This model adds no positions to its embeddings; use the paper's sines. ",
}


def _width(scene: Scene) -> int:
    return scene.config.d_model + scene.config.d_model % 2


def _note(scene: Scene) -> dict[str, object]:
    unlike = position_vectors.unlike_the_paper(scene.config)
    return {"note": _NOTES.get(scene.config.positions, unlike and f"{unlike} ")}


def _waves(width: int, n: int, *pairs: int) -> tuple[Series]:
    """Return pairs of dimensions along n positions."""
    table = position_vectors.encoding(n, width, "interleaved")
    lines = {f"{wave}, dimension {2 * pair + at + 1}": table[:, 2 * pair + at]
             for pair in pairs for at, wave in enumerate(("sin", "cos"))}  # fmt: skip
    return (Series("Dimensions along the positions", np.arange(n), lines, "position"),)


def _about(period: float) -> str:
    return f"about {period:,.0f}"


@fact
def fastest(scene: Scene) -> StopFacts:
    """The period of the fastest dimensions."""
    period = float(position_vectors.wavelengths(_width(scene))[0])
    options = numbers(period, [2, 12, 100, 10_000], _about)
    waves = _waves(_width(scene), 20, 0)
    return StopFacts(*options, {**_note(scene), "period": period}, pictures=waves)


@fact
def slowest(scene: Scene) -> StopFacts:
    """The period of the slowest dimensions."""
    width = _width(scene)
    period = float(position_vectors.wavelengths(width)[-1])
    options = numbers(period, [period / 100, period / 10, 10 * period], _about)
    values = {**_note(scene), "period": period, "pairs": width // 2}
    return StopFacts(*options, values, pictures=_waves(width, 50, 0, width // 2 - 1))


@fact
def distance(scene: Scene) -> StopFacts:
    """The pair of positions with the dot product of 5 and 8."""
    width, pairs = _width(scene), ((40, 43), (5, 13), (3, 12), (8, 24))

    def product(i: int, j: int) -> float:
        table = position_vectors.encoding(2, width, "interleaved", i)
        return float(table[0] @ position_vectors.encoding(1, width, "interleaved", j)[0])

    target = product(5, 8)
    gaps = [abs(product(i, j) - target) for i, j in pairs]
    i, j = pairs[gaps.index(min(gaps))]
    values = {**_note(scene), "target": target, "i": i, "j": j, "same": product(i, j), "gap": j - i}
    table, names = position_vectors.encoding(50, width, "interleaved"), tuple(map(str, range(50)))
    products = Panel("Dot products of positions", table @ table.T, names, names, "position",
                     "position", scale="diverging")  # fmt: skip
    options = tuple(f"{i} and {j}" for i, j in pairs)
    return StopFacts(options, gaps.index(min(gaps)), values, pictures=(products,))


@fact
def rotation(scene: Scene) -> StopFacts:
    """The angle by which 3 positions turn the fastest hand, in degrees."""
    shift = position_vectors.shift(5, 3, _width(scene), "interleaved")
    angle = math.degrees(float(shift.angles[0]))
    values = {**_note(scene), "angle": angle, "error": decimal(shift.largest_error)}
    options = numbers(angle, [30, 90, 360], "{:.0f}°".format)
    return StopFacts(*options, values, pictures=_waves(_width(scene), 20, 0))


@fact
def beyond(scene: Scene) -> StopFacts:
    """The number of pairs whose period is longer than the longest training sentence."""
    width, limit = _width(scene), scene.trained or 100
    slow, pairs = int((position_vectors.wavelengths(width) > limit).sum()), width // 2
    options = numbers(slow, [0, pairs // 4, pairs, pairs // 2], "{:.0f}".format)
    values = {**_note(scene), "limit": limit, "pairs": pairs}
    waves = _waves(width, limit, max(pairs - slow - 1, 0), pairs - 1)
    return StopFacts(*options, values, form="" if scene.trained else "unknown", pictures=waves)
