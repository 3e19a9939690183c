"""Facts of the tour of training (section 5), by a checkpoint's own recipe and results."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from figures.markdown import plain
from figures.numbers import count, decimal, in_words
from transformer.training.objective import learning_rate, smoothed_target
from ui.tours.stops import Chosen, Found, Scene, among, numbers
from ui.tours.training_facts import PAPER_PART, how_long, training_facts, whose

#: Updates after which the tour asks what Adam remembers.
AGE = 50


def how_much(scene: Scene) -> Found:
    """The number of target tokens in training."""
    facts = training_facts(scene)
    right = float(max(facts.target_tokens, 1))
    passes = "one pass" if facts.epochs == 1 else "passes"
    said = {
        "whose": whose(facts), "updates": facts.updates, "tokens": facts.target_tokens,
        "again": f" in {count(facts.epochs, 'epoch')} ({passes} over the text)"
        if facts.epochs else "",
        "each": facts.target_tokens / facts.updates,
        "took": f", {how_long(facts.hours)}" if facts.hours else "",
    }  # fmt: skip
    options = numbers(right, [right / 100, right / 10, right * 10], in_words)
    return Found(*options, said, form="continued" if facts.continued else "")


def batch(scene: Scene) -> Found:
    """The number of pairs in a batch, each as long as the one on the left."""
    facts = training_facts(scene)
    room, length = facts.recipe.batch_tokens, length_of(scene)
    right = max(room // length, 1)
    said = {
        "whose": "this checkpoint" if facts.own else "the paper’s base model",
        "room": room, "length": length, "right": right,
        "longest": f", and {max(room // facts.longest, 1):,} of the longest"
        if facts.longest else "",
        "each": facts.target_tokens / facts.updates,
    }  # fmt: skip
    wrong = [max(right // 4, 1), 4 * right, room]
    return Found(*numbers(float(right), wrong, "{:,.0f}".format), said)


def length_of(scene: Scene) -> int:
    """Return the tokens of the longer side of the sentence on the left."""
    return max(len(scene.trace.src_tokens), len(scene.trace.predicted_tokens), 1)


def hours(scene: Scene) -> Found:
    """The hours of all parts; the paper's if one is unknown."""
    facts = training_facts(scene)
    known = facts.hours_in_all > 0
    parts, total = (facts.parts, facts.hours_in_all) if known else ((PAPER_PART,), PAPER_PART.hours)
    several = f"The {len(parts)} parts of its training ran" if len(parts) > 1 else "It was trained"
    said = {
        "whose": several if known and facts.own else "The paper’s base model was trained",
        "on": f" on {plain(parts[-1].hardware)}" if parts[-1].hardware else "",
    }
    return Found(*numbers(total, [total / 10, total * 10, total * 100], how_long), said)


def remembered(scene: Scene) -> Found:
    """The weight of an old gradient in Adam's means."""
    recipe = training_facts(scene).recipe
    left, forgot = recipe.beta2**AGE, recipe.beta1**AGE
    said = {
        "beta1": recipe.beta1, "beta2": recipe.beta2, "age": AGE, "left": decimal(left, 2),
        "forgot": decimal(forgot, 2), "epsilon": decimal(recipe.epsilon), "paper": decimal(1e-9),
    }  # fmt: skip
    options = numbers(
        100 * left, [100, 100 / AGE, 100 * forgot], lambda share: f"{decimal(share, 2)}%"
    )
    return Found(*options, said)


def dropped(scene: Scene) -> Found:
    """The numbers of one token that dropout sets to 0."""
    facts = training_facts(scene)
    p, d_model = facts.dropout or 0.1, facts.d_model
    zeros = p * d_model
    said = {"p": p, "d_model": d_model, "zeros": zeros, "scale": 1 / (1 - p)}
    wrong = [zeros / 10, d_model / 2, (1 - p) * d_model]
    form = "" if facts.dropout else "without"
    return Found(*numbers(zeros, wrong, "{:.0f}".format), said, form=form)


def averaged(scene: Scene) -> Found:
    """BLEU by the number of epochs averaged; the paper's number if only one was tried."""
    averages = training_facts(scene).averages[:6]
    if len(averages) < 2:
        return Found(("1", "5", "10", "20"), 1, form="paper")
    return _highest([count(n, "epoch") for n, _ in averages], [score for _, score in averages])


def _highest(labels: Sequence[str], scores: Sequence[float]) -> Found:
    """Ask for the highest score."""
    ranking = [int(i) for i in np.argsort(np.array(scores))]
    options: Chosen = among(int(np.argmax(scores)), ranking, labels, most=5)
    each = ", ".join(f"{label}: {score:.1f}" for label, score in zip(labels, scores, strict=True))
    return Found(*options, {"each": each})


def peak(scene: Scene) -> Found:
    """The update with the highest learning rate."""
    facts = training_facts(scene)
    right = float(min(max(facts.recipe.warmup, 1), facts.updates))
    top, end = (
        learning_rate(n, facts.recipe, facts.d_model, facts.updates)
        for n in (int(right), facts.updates)
    )
    last = f"{decimal(end, 2)} at the end"
    said = {
        "updates": facts.updates, "part": "of the last part " if facts.continued else "",
        "right": right, "top": decimal(top, 3),
        "falls": f", and to {last}" if facts.recipe.cooldown else f" ({last})",
    }  # fmt: skip
    return Found(
        *numbers(right, [1, facts.updates / 2, facts.updates], "update {:,.0f}".format), said
    )


def smoothed(scene: Scene) -> Found:
    """The share of the target that label smoothing leaves for the right token."""
    facts = training_facts(scene)
    epsilon = facts.recipe.label_smoothing or 0.1
    right, each = smoothed_target(epsilon, facts.vocab_size)
    options = numbers(right, [1.0, epsilon, 0.5], lambda share: f"{100 * share:.4g}%")
    said = {"epsilon": epsilon, "vocab": facts.vocab_size, "right": right, "each": decimal(each, 3)}
    return Found(*options, said, form="" if facts.recipe.label_smoothing else "without")


def greedy_or_beam(scene: Scene) -> Found:
    """BLEU by the way of decoding; the paper's models if only one was tried."""
    facts = training_facts(scene)
    if len({score for _, score in facts.tried}) < 2:
        return Found(("base", "big"), 1, form="paper")
    tried = list(dict.fromkeys(facts.tried))[:6]
    labels = [str(decoding) for decoding, _ in tried]
    if len(set(labels)) < len(labels):
        labels = [f"{label} ({place})" for place, label in enumerate(labels, 1)]
    found = _highest(labels, [score for _, score in tried])
    tests = ", ".join(f"{score:.1f} on {name}" for name, score in facts.tests.items())
    there = f"; there it scores {tests}" if tests else ""
    return Found(found.options, found.answer, {**found.values, "there": there})
