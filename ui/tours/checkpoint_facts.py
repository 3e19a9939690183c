"""Facts of a checkpoint, for the tours of positions (section 3.5) and training (section 5)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps

import numpy as np

from figures.labels import count, decimal, in_words, plain
from transformer.evaluation.records import text_name
from transformer.trace import position_vectors
from transformer.training.objective import learning_rate, smoothed_target
from ui.tours.stops import Chosen, Facts, Scene, StopFacts, among, fact, numbers
from ui.tours.training_exhibits import training_exhibit
from ui.tours.training_facts import PAPER_PART, TrainingFacts, how_long, training_facts, whose

#: Notes before a question if the picture shows other positions than the checkpoint's.
_NOTES = {
    "learned": "This model learned its positions (table 3, row E); take the paper's sines. ",
    "stored": "This model keeps its positions as a table of numbers; take the paper's sines. ",
    "relative": "This model adds no positions to its embeddings; take the paper's sines. ",
}


def _width(scene: Scene) -> int:
    return scene.config.d_model + scene.config.d_model % 2


def _note(scene: Scene) -> dict[str, object]:
    unlike = position_vectors.unlike_the_paper(scene.config)
    return {"note": _NOTES.get(scene.config.positions, unlike and f"{unlike} ")}


def _about(period: float) -> str:
    return f"about {period:,.0f}"


@fact
def fastest(scene: Scene) -> StopFacts:
    """The period of the fastest dimensions."""
    period = float(position_vectors.wavelengths(_width(scene))[0])
    options = numbers(period, [2, 12, 100, 10_000], _about)
    return StopFacts(*options, {**_note(scene), "period": period})


@fact
def slowest(scene: Scene) -> StopFacts:
    """The period of the slowest dimensions."""
    width = _width(scene)
    period = float(position_vectors.wavelengths(width)[-1])
    options = numbers(period, [period / 100, period / 10, 10 * period], _about)
    return StopFacts(*options, {**_note(scene), "period": period, "pairs": width // 2})


@fact
def distance(scene: Scene) -> StopFacts:
    """The pair of positions with the dot product of 5 and 8."""
    width, pairs = _width(scene), ((40, 43), (5, 13), (3, 12), (8, 24))

    def product(i: int, j: int) -> float:
        table = position_vectors.encoding(2, width, "interleaved", i)
        other = position_vectors.encoding(1, width, "interleaved", j)
        return float(table[0] @ other[0])

    target = product(5, 8)
    gaps = [abs(product(i, j) - target) for i, j in pairs]
    i, j = pairs[gaps.index(min(gaps))]
    values = {**_note(scene), "target": target, "i": i, "j": j, "same": product(i, j), "gap": j - i}
    return StopFacts(tuple(f"{i} and {j}" for i, j in pairs), gaps.index(min(gaps)), values)


@fact
def rotation(scene: Scene) -> StopFacts:
    """The angle by which 3 positions turn the fastest hand, in degrees."""
    shift = position_vectors.shift(5, 3, _width(scene), "interleaved")
    angle = math.degrees(float(shift.angles[0]))
    values = {**_note(scene), "angle": angle, "error": decimal(shift.largest_error)}
    return StopFacts(*numbers(angle, [30, 90, 360], "{:.0f}°".format), values)


@fact
def beyond(scene: Scene) -> StopFacts:
    """The number of pairs whose period is longer than the longest training sentence."""
    width, limit = _width(scene), scene.trained or 100
    slow, pairs = int((position_vectors.wavelengths(width) > limit).sum()), width // 2
    options = numbers(slow, [0, pairs // 4, pairs, pairs // 2], "{:.0f}".format)
    values = {**_note(scene), "limit": limit, "pairs": pairs}
    return StopFacts(*options, values, form="" if scene.trained else "unknown")


def length_of(scene: Scene) -> int:
    """Return the longer of the source and translation, in tokens."""
    return max(len(scene.trace.src_tokens), len(scene.trace.predicted_tokens), 1)


def training_fact(figure: str) -> Callable[[Callable[[TrainingFacts, int], StopFacts]], Facts]:
    """Register facts of a training and the tokens of a sentence, with a figure as the answer."""

    def register(function: Callable[[TrainingFacts, int], StopFacts]) -> Facts:
        @wraps(function)
        def of_scene(scene: Scene) -> StopFacts:
            facts, length = training_facts(scene), length_of(scene)
            found = function(facts, length)
            if not figure:
                return found
            exhibit = training_exhibit(facts, "", "this model", figure, length)
            return replace(found, pictures=exhibit.parts)

        return fact(of_scene)

    return register


#: Age in updates of the gradient in the question about Adam.
AGE = 50


@training_fact("")
def how_much(facts: TrainingFacts, length: int) -> StopFacts:
    """The number of target tokens in training."""
    right = float(max(facts.target_tokens, 1))
    passes = "one pass" if facts.epochs == 1 else "passes"
    values = {
        "whose": whose(facts), "updates": facts.updates, "tokens": facts.target_tokens,
        "again": f" in {count(facts.epochs, 'epoch')} ({passes} over the text)"
        if facts.epochs else "",
        "per_update": facts.target_tokens / facts.updates,
        "took": f", {how_long(facts.hours)}" if facts.hours else "",
    }  # fmt: skip
    options = numbers(right, [right / 100, right / 10, right * 10], in_words)
    return StopFacts(*options, values, form="continued" if facts.continued else "")


@training_fact("batch-by-length")
def batch(facts: TrainingFacts, length: int) -> StopFacts:
    """The number of pairs in a batch, all as long as the one on the left."""
    room = facts.recipe.batch_tokens
    right = max(room // length, 1)
    values = {
        "whose": "this model" if facts.own else "the paper’s base model",
        "room": room, "length": length, "right": right,
        "longest": f", and {max(room // facts.longest, 1):,} of the longest"
        if facts.longest else "",
        "per_update": facts.target_tokens / facts.updates,
    }  # fmt: skip
    wrong = [max(right // 4, 1), 4 * right, room]
    return StopFacts(*numbers(float(right), wrong, "{:,.0f}".format), values)


@training_fact("training-hours")
def hours(facts: TrainingFacts, length: int) -> StopFacts:
    """Training time in hours; the paper's if unknown."""
    has_hours = facts.hours_in_all > 0
    parts, total = (
        (facts.parts, facts.hours_in_all) if has_hours else ((PAPER_PART,), PAPER_PART.hours)
    )
    several = f"The {len(parts)} parts of its training ran" if len(parts) > 1 else "It was trained"
    values = {
        "whose": several if has_hours and facts.own else "The paper’s base model was trained",
        "on": f" on {plain(parts[-1].hardware)}" if parts[-1].hardware else "",
    }
    return StopFacts(*numbers(total, [total / 10, total * 10, total * 100], how_long), values)


@training_fact("adam-memory")
def remembered(facts: TrainingFacts, length: int) -> StopFacts:
    """The weight of an old gradient in Adam's means."""
    recipe = facts.recipe
    left, forgot = recipe.beta2**AGE, recipe.beta1**AGE
    values = {
        "beta1": recipe.beta1, "beta2": recipe.beta2, "age": AGE, "left": decimal(left, 2),
        "forgot": decimal(forgot, 2), "epsilon": decimal(recipe.epsilon), "paper": decimal(1e-9),
    }  # fmt: skip
    options = numbers(
        100 * left, [100, 100 / AGE, 100 * forgot], lambda share: f"{decimal(share, 2)}%"
    )
    return StopFacts(*options, values)


@training_fact("dropout")
def dropped(facts: TrainingFacts, length: int) -> StopFacts:
    """Mean number of one token's values set to 0 by dropout."""
    p, d_model = facts.dropout or 0.1, facts.d_model
    zeros = p * d_model
    values = {"p": p, "d_model": d_model, "zeros": zeros, "scale": 1 / (1 - p)}
    wrong = [zeros / 10, d_model / 2, (1 - p) * d_model]
    form = "" if facts.dropout else "without"
    return StopFacts(*numbers(zeros, wrong, "{:.0f}".format), values, form=form)


@training_fact("averaged-checkpoints")
def averaged(facts: TrainingFacts, length: int) -> StopFacts:
    """BLEU by number of averaged epochs; the paper's number with fewer than two results."""
    averages = facts.averages[:6]
    if len(averages) < 2:
        return StopFacts(("1", "5", "10", "20"), 1, form="paper")
    return _highest([count(n, "epoch") for n, _ in averages], [score for _, score in averages])


def _highest(labels: Sequence[str], scores: Sequence[float]) -> StopFacts:
    """Ask for the highest score."""
    ranking = [int(i) for i in np.argsort(np.array(scores))]
    options: Chosen = among(int(np.argmax(scores)), ranking, labels, most=5)
    pairs = zip(labels, scores, strict=True)
    return StopFacts(
        *options, {"scores": ", ".join(f"{name}: {score:.1f}" for name, score in pairs)}
    )


@training_fact("learning-rate")
def peak(facts: TrainingFacts, length: int) -> StopFacts:
    """The update with the highest learning rate."""
    right = float(min(max(facts.recipe.warmup, 1), facts.updates))
    top, end = (
        learning_rate(n, facts.recipe, facts.d_model, facts.updates)
        for n in (int(right), facts.updates)
    )
    last = f"{decimal(end, 2)} at the end"
    values = {
        "updates": facts.updates, "part": "of the last part " if facts.continued else "",
        "right": right, "top": decimal(top, 3),
        "falls": f", and to {last}" if facts.recipe.cooldown else f" ({last})",
    }  # fmt: skip
    return StopFacts(
        *numbers(right, [1, facts.updates / 2, facts.updates], "update {:,.0f}".format), values
    )


@training_fact("label-smoothing")
def smoothed(facts: TrainingFacts, length: int) -> StopFacts:
    """The right token's share of the smoothed target."""
    epsilon = facts.recipe.label_smoothing or 0.1
    right, other = smoothed_target(epsilon, facts.vocab_size)
    options = numbers(right, [1.0, epsilon, 0.5], lambda share: f"{100 * share:.4g}%")
    values = {
        "epsilon": epsilon,
        "vocab": facts.vocab_size,
        "right": right,
        "other": decimal(other, 3),
    }
    return StopFacts(*options, values, form="" if facts.recipe.label_smoothing else "without")


@training_fact("bleu-by-setting")
def greedy_or_beam(facts: TrainingFacts, length: int) -> StopFacts:
    """BLEU by decoding method; the paper's models with fewer than two scores."""
    if len({score for _, score in facts.tried}) < 2:
        return StopFacts(("base", "big"), 1, form="paper")
    tried = list(dict.fromkeys(facts.tried))[:6]
    labels = [str(decoding) for decoding, _ in tried]
    if len(set(labels)) < len(labels):
        labels = [f"{label} ({place})" for place, label in enumerate(labels, 1)]
    highest = _highest(labels, [score for _, score in tried])
    tests = "; ".join(
        f"{score:.1f} on {plain(text_name(name))}" for name, score in facts.tests.items()
    )
    there = f"; there it scores {tests}" if tests else ""
    return replace(highest, values={**highest.values, "there": there})
