"""Facts of the tour of positional encodings (section 3.5)."""

from __future__ import annotations

import math

from figures.numbers import decimal
from transformer.trace import position_vectors
from ui.tours.stops import Found, Scene, numbers

#: Notes before a question if the picture is not of the checkpoint's positions.
_NOTES = {
    "learned": "This checkpoint learned its positions (table 3, row E); take the paper's sines. ",
    "stored": "This checkpoint keeps its positions as a table of numbers; take the paper's sines. ",
    "relative": "This checkpoint adds no positions to its embeddings; take the paper's sines. ",
}


def _width(scene: Scene) -> int:
    return scene.config.d_model + scene.config.d_model % 2


def _note(scene: Scene) -> dict[str, object]:
    unlike = position_vectors.unlike_the_paper(scene.config)
    return {"note": _NOTES.get(scene.config.positions, unlike and f"{unlike} ")}


def _about(period: float) -> str:
    return f"about {period:,.0f}"


def fastest(scene: Scene) -> Found:
    """The period of the fastest dimensions."""
    period = float(position_vectors.wavelengths(_width(scene))[0])
    options = numbers(period, [2, 12, 100, 10_000], _about)
    return Found(*options, {**_note(scene), "period": period})


def slowest(scene: Scene) -> Found:
    """The period of the slowest dimensions."""
    width = _width(scene)
    period = float(position_vectors.wavelengths(width)[-1])
    options = numbers(period, [period / 100, period / 10, 10 * period], _about)
    return Found(*options, {**_note(scene), "period": period, "pairs": width // 2})


def distance(scene: Scene) -> Found:
    """The pair of positions whose dot product is that of 5 and 8."""
    width, pairs = _width(scene), ((40, 43), (5, 13), (3, 12), (8, 24))

    def product(i: int, j: int) -> float:
        table = position_vectors.encoding(2, width, "interleaved", i)
        other = position_vectors.encoding(1, width, "interleaved", j)
        return float(table[0] @ other[0])

    target = product(5, 8)
    gaps = [abs(product(i, j) - target) for i, j in pairs]
    i, j = pairs[gaps.index(min(gaps))]
    said = {**_note(scene), "target": target, "i": i, "j": j, "same": product(i, j), "gap": j - i}
    return Found(tuple(f"{i} and {j}" for i, j in pairs), gaps.index(min(gaps)), said)


def rotation(scene: Scene) -> Found:
    """The angle by which 3 positions turn the fastest hand, in degrees."""
    turned = position_vectors.shift(5, 3, _width(scene), "interleaved")
    angle = math.degrees(float(turned.angles[0]))
    said = {**_note(scene), "angle": angle, "error": decimal(turned.largest_error)}
    return Found(*numbers(angle, [30, 90, 360], "{:.0f}°".format), said)


def beyond(scene: Scene) -> Found:
    """The number of pairs whose period is longer than the longest training sentence."""
    width, limit = _width(scene), scene.trained or 100
    slow, pairs = int((position_vectors.wavelengths(width) > limit).sum()), width // 2
    options = numbers(slow, [0, pairs // 4, pairs, pairs // 2], "{:.0f}".format)
    said = {**_note(scene), "limit": limit, "pairs": pairs}
    return Found(*options, said, form="" if scene.trained else "unknown")
