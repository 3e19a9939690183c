"""Figures of the training tour, made of what a checkpoint says of its training."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from figures.exhibit import Exhibit, Series
from figures.labels import count
from transformer.errors import InputError
from transformer.models.catalogue import inspect_entry
from transformer.training.objective import smoothed_target
from ui.export.programs import start_of
from ui.tours.training_facts import PAPER_PART, TrainingFacts, facts_of, whose

#: The paper's table 2, newstest2014 English to German.
PAPER_SCORES = {"base, 65M parameters": 27.3, "big, 213M parameters": 28.4}
#: The paper's last checkpoints that were averaged (section 6.1).
PAPER_AVERAGES = {"base": 5.0, "big": 20.0}
#: Ages of gradients, in updates, and lengths of sentences, in tokens.
AGES, LENGTHS = (1, 10, 50, 100), (5, 10, 20, 40, 80)


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
    return FIGURES[figure](facts_of(entry.config, entry.metrics), entry.name, length)


def training_exhibit(
    facts: TrainingFacts, checkpoint: str, title: str, figure: str, length: int
) -> Exhibit:
    """Return `training` of known facts, with its program; `title` names the model in text."""
    made = FIGURES[figure](facts, title, length)
    arrays = "".join(f"{name} = figure.arrays[{name!r}]\n" for name in made.arrays)
    call = f"headlight.training(path_of({checkpoint!r}), {figure!r}, {length})"
    return replace(made, snippet=f"{start_of((), 'import headlight')}figure = {call}\n{arrays}")


def _batch(facts: TrainingFacts, title: str, length: int) -> Exhibit:
    """Return the pairs in a batch by length, that of the sentence on the left among them."""
    room, lengths = facts.recipe.batch_tokens, sorted({*LENGTHS, length})
    return _bars(
        "batch-by-length", "Pairs in a batch", "pairs in a batch",
        f"{whose(facts)}: a batch has room for {room:,} tokens (section 5.1).",
        {f"{n} tokens": float(max(room // n, 1)) for n in lengths},
    )  # fmt: skip


def _hours(facts: TrainingFacts, title: str, length: int) -> Exhibit:
    """Return the hours of each part of the training; the paper's if one is unknown."""
    numbers = {f"part {number}": part.hours for number, part in enumerate(facts.parts, start=1)}
    if not (facts.own and facts.hours_in_all):
        title, numbers = "the paper's base model", {"the paper's base model": PAPER_PART.hours}
    caption = f"Training took {title} this many hours (section 5.2)."
    return _bars("training-hours", "Hours of training", "hours", caption, numbers)


def _memory(facts: TrainingFacts, title: str, length: int) -> Exhibit:
    """Return the weight of older gradients in Adam's two means, against the newest."""
    one, two = facts.recipe.beta1, facts.recipe.beta2
    return _bars(
        "adam-memory", "What Adam remembers", "weight in the mean, the newest being 1",
        f"{whose(facts)}: means of gradients fade by β₁ = {one:g}, β₂ = {two:g} (section 5.3).",
        {
            f"{name}, {count(age, 'update')} ago": beta**age
            for name, beta in (("gradient", one), ("square", two))
            for age in AGES
        },
    )  # fmt: skip


def _rate(facts: TrainingFacts, title: str, length: int) -> Exhibit:
    updates, rates = facts.rates
    title = "learning rate"
    return Exhibit(
        name="learning-rate",
        title="The learning rate",
        caption=f"{whose(facts)}: the rate rises for {facts.recipe.warmup:,} of {facts.updates:,} "
        "updates, then falls (section 5.3, equation 3).",
        parts=(Series(title, updates, {title: rates}, "update", title),),
        arrays={"updates": updates, "rates": rates},
    )


def _dropout(facts: TrainingFacts, title: str, length: int) -> Exhibit:
    """Return how many of a token's numbers dropout sets to 0, on average."""
    p, d_model = facts.dropout or 0.1, facts.d_model
    without = "" if facts.dropout else " This model was trained without; p is the paper's."
    return _bars(
        "dropout", "What dropout leaves", "numbers of one token, on average",
        f"Dropout of p = {p:g} with d_model = {d_model} (section 5.4).{without}",
        {"set to 0": p * d_model, f"kept, times {1 / (1 - p):.2f}": (1 - p) * d_model},
    )  # fmt: skip


def _smoothing(facts: TrainingFacts, title: str, length: int) -> Exhibit:
    """Return the training target at one position, by token, with label smoothing."""
    epsilon, vocab_size = facts.recipe.label_smoothing or 0.1, facts.vocab_size
    right, other = smoothed_target(epsilon, vocab_size)
    without = "" if facts.recipe.label_smoothing else " This model was trained without."
    return _bars(
        "label-smoothing", "The target with label smoothing", "share of the target",
        f"Label smoothing {epsilon:g} over {vocab_size:,} tokens (section 5.4).{without}",
        {
            "the right token": right,
            "each other token": other,
            f"all {vocab_size - 1:,} others together": other * (vocab_size - 1),
        },
    )  # fmt: skip


def _averages(facts: TrainingFacts, title: str, length: int) -> Exhibit:
    """Return BLEU by the epochs averaged; the paper's checkpoints if only one was tried."""
    label, caption = (
        "BLEU on validation text, greedy",
        f"Weights of {title}, averaged over epochs.",
    )
    numbers = {count(n, "epoch"): bleu for n, bleu in facts.averages}
    if len(numbers) < 2:
        label, caption = "checkpoints averaged", "The paper's models (section 6.1)."
        numbers = PAPER_AVERAGES
    return _bars("averaged-checkpoints", "Averaged weights", label, caption, numbers)


def _scores(facts: TrainingFacts, title: str, length: int) -> Exhibit:
    """Return BLEU by decoding; the paper's if the checkpoint names none."""
    numbers = {str(decoding): score for decoding, score in facts.tried if score > 0}
    caption = f"Validation text, translated by {title} with each setting."
    if not numbers:
        caption, numbers = "The paper's table 2, newstest2014 English to German.", PAPER_SCORES
    return _bars("bleu-by-setting", "BLEU by setting", "BLEU", caption, numbers)


#: By name, in the order of the tour's stops from the second on.
FIGURES: dict[str, Callable[[TrainingFacts, str, int], Exhibit]] = {
    "batch-by-length": _batch, "training-hours": _hours, "adam-memory": _memory,
    "learning-rate": _rate, "dropout": _dropout, "label-smoothing": _smoothing,
    "averaged-checkpoints": _averages, "bleu-by-setting": _scores,
}  # fmt: skip


def _bars(name: str, title: str, label: str, caption: str, numbers: Mapping[str, float]) -> Exhibit:
    """Return named numbers as bars; `label` is that of the numbers."""
    names, values = tuple(numbers), np.array(list(numbers.values()))
    part = Series(title, names, {label: values}, "", label, "bar")
    return Exhibit(name, title, caption, (part,), {"names": np.array(names), "values": values})
