"""A tour of positional encodings (section 3.5)."""

from __future__ import annotations

import math

from figures.numbers import decimal
from transformer.trace import position_vectors
from ui.tours.stops import Question, Scene, Stop, Tour, numbers


def _width(scene: Scene) -> int:
    return scene.config.d_model + scene.config.d_model % 2


def _whose(scene: Scene) -> str:
    """Return a note before the question if the picture is not of the checkpoint's positions."""
    if scene.config.positions == "learned":
        return "This checkpoint learned its positions (table 3, row E); take the paper's sines. "
    if scene.config.positions == "stored":
        return "This checkpoint keeps its positions as a table of numbers; take the paper's sines. "
    if scene.config.positions == "relative":
        return "This checkpoint adds no positions to its embeddings; take the paper's sines. "
    unlike = position_vectors.unlike_the_paper(scene.config)
    return unlike and f"{unlike} "


def _fastest(scene: Scene) -> Question:
    period = float(position_vectors.wavelengths(_width(scene))[0])
    options, answer = numbers(period, [2, 12, 100, 10_000], lambda x: f"about {x:,.0f}")
    return Question(
        f"{_whose(scene)}Two of the dimensions change fastest. After how many positions do they "
        "begin again?",
        options,
        answer,
        f"After 2π ≈ {period:.2f} positions, at the left edge of the picture: their frequency is "
        "10000⁰ = 1, so the pattern is sin(pos), cos(pos).",
    )


def _slowest(scene: Scene) -> Question:
    width = _width(scene)
    period = float(position_vectors.wavelengths(width)[-1])
    options, answer = numbers(
        period, [period / 100, period / 10, 10 * period], lambda x: f"about {x:,.0f}"
    )
    return Question(
        f"{_whose(scene)}And the slowest of the {width // 2} pairs of dimensions?",
        options,
        answer,
        f"After {period:,.0f} positions. Over one sentence it hardly moves: it tells early from "
        "late, as the hour hand of a clock does.",
    )


def _distance(scene: Scene) -> Question:
    width = _width(scene)
    pairs = ((40, 43), (5, 13), (3, 12), (8, 24))

    def product(i: int, j: int) -> float:
        table = position_vectors.encoding(2, width, "interleaved", i)
        other = position_vectors.encoding(1, width, "interleaved", j)
        return float(table[0] @ other[0])

    target = product(5, 8)
    gaps = [abs(product(i, j) - target) for i, j in pairs]
    answer = gaps.index(min(gaps))
    i, j = pairs[answer]
    return Question(
        f"{_whose(scene)}Multiply the patterns of positions 5 and 8, number by number, and add up "
        "(their **dot product**). Which other two positions give the same?",
        tuple(f"{i} and {j}" for i, j in pairs),
        answer,
        f"5 and 8 give {target:.2f}, {i} and {j} give {product(i, j):.2f}: both are {j - i} apart. "
        "Only the distance counts, so every diagonal of the matrix has one colour.",
    )


def _rotation(scene: Scene) -> Question:
    turned = position_vectors.shift(5, 3, _width(scene), "interleaved")
    angle = math.degrees(float(turned.angles[0]))
    options, answer = numbers(angle, [30, 90, 360], lambda x: f"{x:.0f}°")
    return Question(
        f"{_whose(scene)}Each pair (sin, cos) is the hand of a clock. Going 3 positions on turns "
        "the fastest hand by 3 times 1 radian. How many degrees?",
        options,
        answer,
        f"3 · 180°/π = {angle:.1f}°, from wherever the hand stands. The paper hoped that this lets "
        "the model attend by relative position. Turned and computed hands differ by at most "
        f"{decimal(turned.largest_error)}.",
    )


def _beyond(scene: Scene) -> Question:
    width = _width(scene)
    limit = scene.trained or 100
    slow = int((position_vectors.wavelengths(width) > limit).sum())
    pairs = width // 2
    options, answer = numbers(slow, [0, pairs // 4, pairs, pairs // 2], "{:.0f}".format)
    known = (
        f"The longest training sentence of this checkpoint had {limit} positions."
        if scene.trained
        else f"This checkpoint does not say how long its training sentences were; take {limit}."
    )
    return Question(
        f"{_whose(scene)}{known} How many of the {pairs} pairs never made a full turn in training?",
        options,
        answer,
        "The formula goes on for ever, but beyond that length these pairs take values that "
        "training never showed.",
    )


POSITIONS = Tour(
    "positions",
    "Positions",
    "How a model that reads everything at once knows the order.",
    "3.5",
    ":material/waves:",
    (
        Stop(
            "A pattern for each place",
            "Attention alone cannot tell “dog bites man” from “man bites dog”. So each place in "
            "the sentence adds its own list of numbers, made of sines and cosines.",
            "3.5", "positions", _fastest, {"positions": "100"},
        ),
        Stop(
            "Fast and slow waves",
            "Along the positions, each dimension is a wave. Fast waves tell neighbours apart; slow "
            "ones tell far places apart. Below: "
            "[Each dimension is a wave](#each-dimension-is-a-wave).",
            "3.5", "positions", _slowest, {"positions": "200"},
        ),
        Stop(
            "Only the distance counts",
            "Compare two places by the dot product of their patterns: large where they agree. "
            "Below: [Only the distance counts](#only-the-distance-counts).",
            "3.5", "positions", _distance,
        ),
        Stop(
            "A step is a turn",
            "The paper chose sines because a step of any fixed length is one and the same "
            "rotation. Below: [A shift is a rotation](#a-shift-is-a-rotation); position and step "
            "are set.",
            "3.5", "positions", _rotation, {"pos": "5", "k": "3"},
        ),
        Stop(
            "Longer than ever seen",
            "The paper hoped that sines would serve for sentences longer than those in training. "
            "Below: "
            "[Beyond the longest training sentence](#beyond-the-longest-training-sentence).",
            "3.5", "positions", _beyond,
        ),
    ),
)  # fmt: skip
