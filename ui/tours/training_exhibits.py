"""Figures of the training tour: functions of a checkpoint's facts, its name and a length."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from figures.exhibit import Exhibit, Series
from figures.numbers import count
from transformer.training.objective import smoothed_target
from ui.export.programs import numpy_imports, roots_lines
from ui.tours.training_facts import PAPER_PART, TrainingFacts, whose

#: The paper's table 2, newstest2014 English to German.
PAPER_SCORES = {"base, 65M parameters": 27.3, "big, 213M parameters": 28.4}
#: The paper's last checkpoints that were averaged (section 6.1).
PAPER_AVERAGES = {"base": 5.0, "big": 20.0}
#: Ages of gradients, in updates, and lengths of sentences, in tokens.
AGES, LENGTHS = (1, 10, 50, 100), (5, 10, 20, 40, 80)


def batch_exhibit(facts: TrainingFacts, checkpoint: str, length: int) -> Exhibit:
    """Return the pairs in a batch by length, that of the sentence on the left among them."""
    room, lengths = facts.recipe.batch_tokens, sorted({*LENGTHS, length})
    return _bars(
        "batch-by-length", "Pairs in a batch", "pairs in a batch",
        f"{whose(facts)}: room for {room:,} tokens (section 5.1).",
        {f"{n} tokens": float(max(room // n, 1)) for n in lengths},
        f"lengths = np.array({lengths!r})\nvalues = np.maximum({room!r} // lengths, 1)\n",
    )  # fmt: skip


def hours_exhibit(facts: TrainingFacts, checkpoint: str, length: int) -> Exhibit:
    """Return the hours of each part of the training; the paper's if one is unknown."""
    if not (facts.own and facts.hours_in_all):
        return _bars(
            "training-hours", "Hours of training", "hours",
            "The paper's base model (section 5.2).",
            {"the paper's base model": PAPER_PART.hours},
        )  # fmt: skip
    return _bars(
        "training-hours", "Hours of training", "hours", f"{checkpoint} (section 5.2).",
        {f"part {number}": part.hours for number, part in enumerate(facts.parts, start=1)},
        _metrics(checkpoint)
        + 'parts = [*(metrics.get("earlier_parts") or []), metrics["training"]]\n'
        'values = np.array([part["hours"] for part in parts])\n',
    )  # fmt: skip


def memory_exhibit(facts: TrainingFacts, checkpoint: str, length: int) -> Exhibit:
    """Return the weight of older gradients in Adam's two means, against the newest."""
    means = {"gradient": facts.recipe.beta1, "square": facts.recipe.beta2}
    one, two = means.values()
    return _bars(
        "adam-memory", "What Adam remembers", "weight in the mean, the newest being 1",
        f"{whose(facts)}: β₁ = {one:g}, β₂ = {two:g} (section 5.3).",
        {
            f"{name}, {count(age, 'update')} ago": beta**age
            for name, beta in means.items()
            for age in AGES
        },
        f"values = (np.array({[one, two]!r})[:, None] ** np.array({list(AGES)!r})).ravel()\n",
    )  # fmt: skip


def rate_exhibit(facts: TrainingFacts, checkpoint: str, length: int) -> Exhibit:
    """Return the learning rate of every update."""
    updates, rates = facts.rates
    recipe = facts.recipe
    return Exhibit(
        name="learning-rate",
        title="The learning rate",
        caption=f"{whose(facts)}: {facts.updates:,} updates, warm-up {recipe.warmup:,} "
        "(section 5.3, equation 3).",
        parts=(
            Series("learning rate", updates, {"learning rate": rates}, "update", "learning rate"),
        ),
        arrays={"updates": updates, "rates": rates},
        snippet=numpy_imports(
            "from transformer.training.objective import learning_rate",
            "from transformer.training.recipe import TrainingRecipe",
        )
        + f"recipe = TrainingRecipe(\n    warmup={recipe.warmup!r}, peak_lr={recipe.peak_lr!r}, "
        f"cooldown={recipe.cooldown!r}\n)\n"
        f"d_model, n_updates = {facts.d_model!r}, {facts.updates!r}\n"
        "updates = np.unique(np.linspace(1, n_updates, 400).round().astype(np.int64))\n"
        "rates = np.array(\n"
        "    [learning_rate(int(n), recipe, d_model, n_updates) for n in updates],\n"
        "    dtype=np.float32,\n)\n",
    )


def dropout_exhibit(facts: TrainingFacts, checkpoint: str, length: int) -> Exhibit:
    """Return how many of a token's numbers dropout sets to 0, on average."""
    p, d_model = facts.dropout or 0.1, facts.d_model
    return _bars(
        "dropout", "What dropout leaves", "numbers of one token, on average",
        f"p = {p:g}, d_model = {d_model} (section 5.4).",
        {"set to 0": p * d_model, f"kept, times {1 / (1 - p):.2f}": (1 - p) * d_model},
        f"p, d_model = {p!r}, {d_model!r}\nvalues = np.array([p, 1 - p]) * d_model\n",
    )  # fmt: skip


def smoothing_exhibit(facts: TrainingFacts, checkpoint: str, length: int) -> Exhibit:
    """Return the training target at one position, by token, with label smoothing."""
    epsilon, vocab_size = facts.recipe.label_smoothing or 0.1, facts.vocab_size
    right, each = smoothed_target(epsilon, vocab_size)
    return _bars(
        "label-smoothing", "The target with label smoothing", "share of the target",
        f"Label smoothing {epsilon:g} over {vocab_size:,} tokens (section 5.4).",
        {
            "the right token": right,
            "each other token": each,
            f"all {vocab_size - 1:,} others together": each * (vocab_size - 1),
        },
        numpy_imports("from transformer.training.objective import smoothed_target")
        + f"vocab_size = {vocab_size!r}\n"
        f"right, each = smoothed_target({epsilon!r}, vocab_size)\n"
        "shares = np.array([right, each, each * (vocab_size - 1)])\n",
        array="shares",
    )  # fmt: skip


def averages_exhibit(facts: TrainingFacts, checkpoint: str, length: int) -> Exhibit:
    """Return BLEU by the epochs averaged; the paper's checkpoints if only one was tried."""
    name, title = "averaged-checkpoints", "Averaged weights"
    if len(facts.averages) < 2:
        caption = "The paper's models (section 6.1)."
        return _bars(name, title, "checkpoints averaged", caption, PAPER_AVERAGES)
    return _bars(
        name, title, "BLEU on validation text, greedy", f"{checkpoint}, greedy, validation text.",
        {count(n, "epoch"): bleu for n, bleu in facts.averages},
        _metrics(checkpoint)
        + "scores = {\n"
        '    row["averaged_epochs"]: row["val_bleu"]\n'
        '    for row in metrics["tried_on_val"]\n'
        '    if row["beam_size"] == 1 and not row.get("mixed_share") and row["val_bleu"] > 0\n'
        "}\n"
        "values = np.array([scores[n] for n in sorted(scores)])\n",
    )  # fmt: skip


def scores_exhibit(facts: TrainingFacts, checkpoint: str, length: int) -> Exhibit:
    """Return BLEU by decoding; the paper's if the checkpoint names none."""
    found = {str(decoding): score for decoding, score in facts.tried if score > 0}
    if not found:
        caption = "The paper's table 2, newstest2014 English to German."
        return _bars(
            "bleu-by-setting", "BLEU by setting", "BLEU", caption, PAPER_SCORES, array="bleu"
        )
    return _bars(
        "bleu-by-setting", "BLEU by setting", "BLEU", f"{checkpoint}, validation text.", found,
        _metrics(checkpoint, "from transformer.search.decoding import Decoding")
        + 'kept = metrics.get("chosen_on_val", {}).get("averaged_epochs")\n'
        "found = {\n"
        '    str(Decoding(row["beam_size"], row["alpha"])): row["val_bleu"]\n'
        '    for row in metrics["tried_on_val"]\n'
        '    if row.get("averaged_epochs") == kept and row["val_bleu"] > 0\n'
        "}\n"
        "bleu = np.array(list(found.values()))\n",
        array="bleu",
    )  # fmt: skip


def _bars(
    name: str,
    title: str,
    label: str,
    caption: str,
    found: Mapping[str, float],
    program: str = "",
    array: str = "values",
) -> Exhibit:
    """Return named numbers as bars.

    Args:
        label: of the numbers.
        program: makes the array; by default it holds them.
    """
    names, values = tuple(found), np.array(list(found.values()))
    program = program or f"{array} = np.array({values.tolist()!r})\n"
    imports = "" if "import numpy" in program else numpy_imports()
    return Exhibit(
        name=name,
        title=title,
        caption=caption,
        parts=(Series(title, names, {label: values}, "", label, "bar"),),
        arrays={"names": np.array(names), array: values},
        snippet=f"{imports}{program}names = np.array({list(names)!r})\n",
    )


def _metrics(checkpoint: str, *imports: str) -> str:
    """Return a program that reads what a checkpoint says of its training."""
    return (
        roots_lines("from transformer.catalogue import inspect_entry", *imports)
        + f"metrics = inspect_entry(path_of({checkpoint!r})).metrics\n"
    )
