"""Questions of the training tour, and figures with their answers, from a model's metrics.json."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from pathlib import Path

import numpy as np

from figures.exhibit import Exhibit, Series
from figures.labels import count, decimal, in_words, plain
from transformer.evaluation.records import text_name
from transformer.models.catalogue import inspect_entry
from transformer.training.objective import smoothed_target
from transformer.types import InputError
from ui.export.programs import start_of
from ui.tours.stops import Scene, StopFacts, among, fact, numbers
from ui.tours.training_facts import (
    PAPER_PART,
    TrainingFacts,
    facts_of,
    how_long,
    training_facts,
    whose,
)

#: The paper's table 2, newstest2014 English to German.
PAPER_SCORES = {"base, 65M parameters": 27.3, "big, 213M parameters": 28.4}
#: The paper's last checkpoints that were averaged (section 6.1).
PAPER_AVERAGES = {"base": 5.0, "big": 20.0}
#: Ages of gradients, in updates, with that of the question, and lengths of sentences, in tokens.
AGES, AGE, LENGTHS = (1, 10, 50, 100), 50, (5, 10, 20, 40, 80)


#: Returns a stop's question and chart, of a training, the model's name and a sentence's length.
Lesson = Callable[[TrainingFacts, str, int], tuple[StopFacts, Exhibit]]
#: By the figure's name, in the order of the tour's stops from the second on.
FIGURES: dict[str, Lesson] = {}


def _chart(
    title: str, label: str, caption: str, numbers: Mapping[str, float] | Mapping[int, float]
) -> Exhibit:
    """Return numbers as bars by name, or as a line by update."""
    names, values = np.array([*numbers]), np.array([*numbers.values()])
    part = Series(title, names, {label: values}, "update", label)
    if names.dtype.kind != "i":
        part = Series(title, tuple(map(str, numbers)), {label: values}, "", label, "bar")
    return Exhibit("training", title, caption, (part,), {"names": names, "values": values})


def training(checkpoint: str | Path, figure: str, length: int = 20) -> Exhibit:
    """Return a figure of the tour of training: what a checkpoint's metrics.json says about it.

    Args:
        checkpoint: the model's folder.
        figure: "batch-by-length", "training-hours", "adam-memory", "learning-rate", "dropout",
            "label-smoothing", "averaged-checkpoints" or "bleu-by-setting".
        length: tokens of a sentence, for the first of these.
    """
    entry = inspect_entry(checkpoint)
    if entry.config is None:
        raise InputError(entry.error or f"{entry.name} is not a Headlight checkpoint")
    if figure not in FIGURES:
        raise InputError(f"figure {figure!r} is not one of {', '.join(FIGURES)}")
    return training_exhibit(facts_of(entry.config, entry.metrics), "", entry.name, figure, length)


def training_exhibit(
    facts: TrainingFacts, checkpoint: str, title: str, figure: str, length: int
) -> Exhibit:
    """Return `training` of known facts, with its program; `title` names the model in text."""
    _, chart = FIGURES[figure](facts, title, length)
    program = f"""{start_of((), "import headlight")}\
figure = headlight.training(path_of({checkpoint!r}), {figure!r}, {length})
names, values = figure.arrays["names"], figure.arrays["values"]
"""
    return replace(chart, name=figure, snippet=program if checkpoint else "")


def lesson(figure: str) -> Callable[[Lesson], Lesson]:
    """Register a stop's question and the figure with its answer."""

    def register(function: Lesson) -> Lesson:
        @wraps(function)
        def of_scene(scene: Scene) -> StopFacts:
            facts, chart = function(training_facts(scene), "this model", length_of(scene))
            return replace(facts, pictures=chart.parts)

        fact(of_scene)
        FIGURES[figure] = function
        return function

    return register


def length_of(scene: Scene) -> int:
    """Return the longer of the source and translation, in tokens."""
    return max(len(scene.trace.src_tokens), len(scene.trace.predicted_tokens), 1)


@fact
def how_much(scene: Scene) -> StopFacts:
    """The number of target tokens in training."""
    facts = training_facts(scene)
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


@lesson("batch-by-length")
def batch(facts: TrainingFacts, title: str, length: int) -> tuple[StopFacts, Exhibit]:
    """The number of pairs in a batch, all as long as the one on the left."""
    room = facts.recipe.batch_tokens
    pairs = {n: max(room // n, 1) for n in sorted({*LENGTHS, length})}
    right = pairs[length]
    values = {
        "whose": "this model" if facts.own else "the paper’s base model",
        "room": room, "length": length, "right": right,
        "longest": f", and {max(room // facts.longest, 1):,} of the longest"
        if facts.longest else "",
        "per_update": facts.target_tokens / facts.updates,
    }  # fmt: skip
    options = numbers(right, [max(right // 4, 1), 4 * right, room], "{:,.0f}".format)
    return StopFacts(*options, values), _chart(
        "Pairs in a batch", "pairs in a batch",
        f"{whose(facts)}: a batch has room for {room:,} tokens (section 5.1).",
        {f"{n} tokens": float(number) for n, number in pairs.items()},
    )  # fmt: skip


@lesson("training-hours")
def hours(facts: TrainingFacts, title: str, length: int) -> tuple[StopFacts, Exhibit]:
    """Training time in hours, by part; the paper's if that of a part is unknown."""
    parts = {f"part {number}": part for number, part in enumerate(facts.parts, start=1)}
    several = f"The {len(parts)} parts of its training ran" if len(parts) > 1 else "It was trained"
    if not (facts.own and facts.hours_in_all):
        title, parts = "the paper's base model", {"the paper's base model": PAPER_PART}
        several = "The paper’s base model was trained"
    total, last = sum(part.hours for part in parts.values()), [*parts.values()][-1]
    on = f" on {last.hardware}" if last.hardware else ""
    options = numbers(total, [total / 10, total * 10, total * 100], how_long)
    return StopFacts(*options, {"whose": several, "on": on and f" {plain(on)}"}), _chart(
        "Hours of training", "hours",
        f"Training of {title} took {how_long(total)} in total{on} (section 5.2).",
        {name: part.hours for name, part in parts.items()},
    )  # fmt: skip


@lesson("adam-memory")
def remembered(facts: TrainingFacts, title: str, length: int) -> tuple[StopFacts, Exhibit]:
    """The weight of older gradients in Adam's two means, against the newest."""
    one, two, epsilon = facts.recipe.beta1, facts.recipe.beta2, facts.recipe.epsilon
    left, forgot = two**AGE, one**AGE
    values = {
        "beta1": one, "beta2": two, "age": AGE, "left": decimal(left, 2),
        "forgot": decimal(forgot, 2), "epsilon": decimal(epsilon), "paper": decimal(1e-9),
    }  # fmt: skip
    options = numbers(
        100 * left, [100, 100 / AGE, 100 * forgot], lambda share: f"{decimal(share, 2)}%"
    )
    return StopFacts(*options, values), _chart(
        "What Adam remembers", "weight by age in updates",
        f"{whose(facts)}: means of gradients fade by β₁ = {one:g}, β₂ = {two:g} (section 5.3).",
        {f"gradient, {age}": one**age for age in AGES}
        | {f"square, {age}": two**age for age in AGES},
    )  # fmt: skip


@lesson("learning-rate")
def peak(facts: TrainingFacts, title: str, length: int) -> tuple[StopFacts, Exhibit]:
    """The update with the highest learning rate."""
    recipe, n = facts.recipe, facts.updates
    right = min(max(recipe.warmup, 1), n)
    top, end = facts.rate(right), facts.rate(n)
    last = f"{decimal(end, 2)} at the end"
    values = {
        "updates": n, "part": "of the last part " if facts.continued else "",
        "right": right, "top": decimal(top, 3),
        "falls": f", and to {last}" if recipe.cooldown else f" ({last})",
    }  # fmt: skip
    led = f", reaching zero over the last {recipe.cooldown:.0%}, a departure"
    return StopFacts(*numbers(right, [1, n / 2, n], "update {:,.0f}".format), values), _chart(
        "The learning rate", "learning rate",
        f"{whose(facts)}: the rate rises for {recipe.warmup:,} of {n:,} updates, then falls"
        f"{led if recipe.cooldown else ''} (section 5.3, equation 3).",
        facts.rates,
    )  # fmt: skip


@lesson("dropout")
def dropped(facts: TrainingFacts, title: str, length: int) -> tuple[StopFacts, Exhibit]:
    """Mean number of one token's values set to 0 by dropout."""
    p, d_model = facts.dropout or 0.1, facts.d_model
    zeros, kept, scale = p * d_model, (1 - p) * d_model, 1 / (1 - p)
    values = {"p": p, "d_model": d_model, "zeros": zeros, "scale": scale}
    options = numbers(zeros, [zeros / 10, d_model / 2, kept], "{:.0f}".format)
    without = "" if facts.dropout else " This model was trained without; p is the paper's."
    return StopFacts(*options, values, form="without" if without else ""), _chart(
        "What dropout leaves", "numbers of one token, on average",
        f"Dropout of p = {p:g} with d_model = {d_model} (section 5.4).{without}",
        {"set to 0": zeros, f"kept, times {scale:.2f}": kept},
    )  # fmt: skip


@lesson("label-smoothing")
def smoothed(facts: TrainingFacts, title: str, length: int) -> tuple[StopFacts, Exhibit]:
    """The right token's share of the smoothed target."""
    epsilon, vocab = facts.recipe.label_smoothing or 0.1, facts.vocab_size
    right, other = smoothed_target(epsilon, vocab)
    options = numbers(right, [1.0, epsilon, 0.5], lambda share: f"{100 * share:.4g}%")
    values = {"epsilon": epsilon, "vocab": vocab, "right": right, "other": decimal(other, 3)}
    without = "" if facts.recipe.label_smoothing else " This model was trained without."
    return StopFacts(*options, values, form="without" if without else ""), _chart(
        "The target with label smoothing", "share of the target",
        f"Label smoothing {epsilon:g} over {vocab:,} tokens (section 5.4).{without}",
        {
            "the right token": right, "each other token": other,
            "all others together": other * (vocab - 1),
        },
    )  # fmt: skip


@lesson("averaged-checkpoints")
def averaged(facts: TrainingFacts, title: str, length: int) -> tuple[StopFacts, Exhibit]:
    """BLEU by number of averaged epochs; the paper's number with fewer than two results."""
    scores = {count(n, "epoch"): bleu for n, bleu in facts.averages}
    if len(scores) < 2:
        return StopFacts(("1", "5", "10", "20"), 1, form="paper"), _chart(
            "Averaged weights", "checkpoints averaged", "The paper's models (section 6.1).",
            PAPER_AVERAGES,
        )  # fmt: skip
    caption = f"Weights of {title}, averaged over epochs."
    chart = _chart("Averaged weights", "BLEU on validation text, greedy", caption, scores)
    return _highest(scores), chart


def _highest(scores: Mapping[str, float], there: str = "") -> StopFacts:
    """Ask for the highest of the first six scores."""
    labels, values = [*scores][:6], np.array([*scores.values()][:6])
    options = among(int(np.argmax(values)), np.argsort(values).tolist(), labels, most=5)
    listed = ", ".join(f"{name}: {score:.1f}" for name, score in [*scores.items()][:6])
    return StopFacts(*options, {"scores": listed, "there": there})


@lesson("bleu-by-setting")
def greedy_or_beam(facts: TrainingFacts, title: str, length: int) -> tuple[StopFacts, Exhibit]:
    """BLEU by decoding method; the paper's models if the checkpoint names fewer than two."""
    caption, scores = (
        f"Validation text, translated by {title} with each setting.",
        dict[str, float](),
    )
    for decoding, score in dict.fromkeys(facts.tried):
        name = str(decoding)
        scores[f"{name} ({len(scores) + 1})" if name in scores else name] = score
    tests = {text_name(name): score for name, score in facts.tests.items() if score}
    listed = "; ".join(f"{score:.1f} on {plain(name)}" for name, score in tests.items())
    asked = _highest(scores, f"; there it scores {listed}" if listed else "") if scores else None
    if asked is None or len({*scores.values()}) < 2:
        asked = StopFacts(("base", "big"), 1, form="paper")
    if not any(scores.values()):
        caption, scores = "The paper's table 2, newstest2014 English to German.", PAPER_SCORES
    for name, score in tests.items():
        caption += f" {name}: {score:.1f} BLEU."
    return asked, _chart("BLEU by setting", "BLEU", caption, scores)
