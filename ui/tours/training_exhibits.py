"""Figures of the training tour, made of what a checkpoint says of its training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from figures.exhibit import Exhibit, Series
from figures.labels import count
from transformer.errors import InputError
from transformer.evaluation.records import text_name
from transformer.models.catalogue import inspect_entry
from transformer.training.objective import smoothed_target
from ui.export.programs import start_of
from ui.tours.training_facts import PAPER_PART, TrainingFacts, facts_of, how_long, whose

#: The paper's table 2, newstest2014 English to German.
PAPER_SCORES = {"base, 65M parameters": 27.3, "big, 213M parameters": 28.4}
#: The paper's last checkpoints that were averaged (section 6.1).
PAPER_AVERAGES = {"base": 5.0, "big": 20.0}
#: Ages of gradients, in updates, and lengths of sentences, in tokens.
AGES, LENGTHS = (1, 10, 50, 100), (5, 10, 20, 40, 80)


class Chart(NamedTuple):
    """Numbers of a figure: bars by name, or a line by update."""

    title: str
    label: str  # of the numbers
    caption: str
    numbers: Mapping[str, float] | Mapping[int, float]


def training(checkpoint: str | Path, figure: str, length: int = 20) -> Exhibit:
    """Return a figure of the tour of training: what a checkpoint's metrics.json says of it.

    Args:
        checkpoint: the model's folder.
        figure: "batch-by-length", "training-hours", "adam-memory", "learning-rate", "dropout",
            "label-smoothing", "averaged-checkpoints" or "bleu-by-setting".
        length: tokens of a sentence, for the first of these.
    """
    entry = inspect_entry(checkpoint)
    if entry.config is None:
        raise InputError(entry.error or f"{entry.name} is no checkpoint of Headlight")
    if figure not in FIGURES:
        raise InputError(f"figure {figure!r} is not one of {', '.join(FIGURES)}")
    return training_exhibit(facts_of(entry.config, entry.metrics), "", entry.name, figure, length)


def training_exhibit(
    facts: TrainingFacts, checkpoint: str, title: str, figure: str, length: int
) -> Exhibit:
    """Return `training` of known facts, with its program; `title` names the model in text."""
    chart = FIGURES[figure](facts, title, length)
    names, values = np.array([*chart.numbers]), np.array([*chart.numbers.values()])
    line = names.dtype.kind == "i"
    part = Series(
        chart.title, names if line else tuple(map(str, chart.numbers)), {chart.label: values},
        "update" if line else "", chart.label, "line" if line else "bar",
    )  # fmt: skip
    program = f"""{start_of((), "import headlight")}\
figure = headlight.training(path_of({checkpoint!r}), {figure!r}, {length})
names, values = figure.arrays["names"], figure.arrays["values"]
"""
    arrays = {"names": names, "values": values}
    return Exhibit(
        figure, chart.title, chart.caption, (part,), arrays, program if checkpoint else ""
    )


def _batch(facts: TrainingFacts, title: str, length: int) -> Chart:
    """Return the pairs in a batch by length, that of the sentence on the left among them."""
    room, lengths = facts.recipe.batch_tokens, sorted({*LENGTHS, length})
    return Chart(
        "Pairs in a batch", "pairs in a batch",
        f"{whose(facts)}: a batch has room for {room:,} tokens (section 5.1).",
        {f"{n} tokens": float(max(room // n, 1)) for n in lengths},
    )  # fmt: skip


def _hours(facts: TrainingFacts, title: str, length: int) -> Chart:
    """Return the hours of each part of the training; the paper's if one is unknown."""
    parts = {f"part {number}": part for number, part in enumerate(facts.parts, start=1)}
    if not (facts.own and facts.hours_in_all):
        title, parts = "the paper's base model", {"the paper's base model": PAPER_PART}
    *_, last = parts.values()
    on = f", on {last.hardware}" if last.hardware else ""
    hours = {name: part.hours for name, part in parts.items()}
    return Chart(
        "Hours of training", "hours",
        f"Training of {title} took {how_long(sum(hours.values()))} in all{on} (section 5.2).",
        hours,
    )  # fmt: skip


def _memory(facts: TrainingFacts, title: str, length: int) -> Chart:
    """Return the weight of older gradients in Adam's two means, against the newest."""
    one, two = facts.recipe.beta1, facts.recipe.beta2
    return Chart(
        "What Adam remembers", "weight by age in updates",
        f"{whose(facts)}: means of gradients fade by β₁ = {one:g}, β₂ = {two:g} (section 5.3).",
        {
            f"{name}, age {age}": beta**age
            for name, beta in (("gradient", one), ("square", two))
            for age in AGES
        },
    )  # fmt: skip


def _rate(facts: TrainingFacts, title: str, length: int) -> Chart:
    updates, rates = facts.rates
    cooldown = facts.recipe.cooldown
    led = f", led to zero over the last {cooldown:.0%}, a departure" if cooldown else ""
    return Chart(
        "The learning rate", "learning rate",
        f"{whose(facts)}: the rate rises for {facts.recipe.warmup:,} of {facts.updates:,} "
        f"updates, then falls{led} (section 5.3, equation 3).",
        dict(zip(updates.tolist(), rates.tolist(), strict=True)),
    )  # fmt: skip


def _dropout(facts: TrainingFacts, title: str, length: int) -> Chart:
    """Return how many of a token's numbers dropout sets to 0, on average."""
    p, d_model = facts.dropout or 0.1, facts.d_model
    without = "" if facts.dropout else " This model was trained without; p is the paper's."
    return Chart(
        "What dropout leaves", "numbers of one token, on average",
        f"Dropout of p = {p:g} with d_model = {d_model} (section 5.4).{without}",
        {"set to 0": p * d_model, f"kept, times {1 / (1 - p):.2f}": (1 - p) * d_model},
    )  # fmt: skip


def _smoothing(facts: TrainingFacts, title: str, length: int) -> Chart:
    """Return the training target at one position, by token, with label smoothing."""
    epsilon, vocab_size = facts.recipe.label_smoothing or 0.1, facts.vocab_size
    right, other = smoothed_target(epsilon, vocab_size)
    without = "" if facts.recipe.label_smoothing else " This model was trained without."
    return Chart(
        "The target with label smoothing", "share of the target",
        f"Label smoothing {epsilon:g} over {vocab_size:,} tokens (section 5.4).{without}",
        {
            "the right token": right,
            "each other token": other,
            "all others together": other * (vocab_size - 1),
        },
    )  # fmt: skip


def _averages(facts: TrainingFacts, title: str, length: int) -> Chart:
    """Return BLEU by the epochs averaged; the paper's checkpoints if only one was tried."""
    label, caption = "BLEU on validation text, greedy", f"Weights of {title}, averaged over epochs."
    numbers = {count(n, "epoch"): bleu for n, bleu in facts.averages}
    if len(numbers) < 2:
        label, caption = "checkpoints averaged", "The paper's models (section 6.1)."
        numbers = PAPER_AVERAGES
    return Chart("Averaged weights", label, caption, numbers)


def _scores(facts: TrainingFacts, title: str, length: int) -> Chart:
    """Return BLEU by decoding; the paper's if the checkpoint names none."""
    numbers = {str(decoding): score for decoding, score in facts.tried if score > 0}
    caption = f"Validation text, translated by {title} with each setting."
    if not numbers:
        caption, numbers = "The paper's table 2, newstest2014 English to German.", PAPER_SCORES
    for name, score in facts.tests.items():
        caption += f" {text_name(name)}: {score:.1f} BLEU." if score else ""
    return Chart("BLEU by setting", "BLEU", caption, numbers)


#: By name, in the order of the tour's stops from the second on.
FIGURES: dict[str, Callable[[TrainingFacts, str, int], Chart]] = {
    "batch-by-length": _batch, "training-hours": _hours, "adam-memory": _memory,
    "learning-rate": _rate, "dropout": _dropout, "label-smoothing": _smoothing,
    "averaged-checkpoints": _averages, "bleu-by-setting": _scores,
}  # fmt: skip
