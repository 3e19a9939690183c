"""The figures of the training tour."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from figures.exhibit import Exhibit, Series
from transformer.training.objective import smoothed_target
from ui.export.programs import numpy_imports, roots_lines
from ui.tours.training_facts import PAPER_PART, TrainingFacts, whose

#: The paper's table 2, newstest2014 English to German.
PAPER_SCORES = {"base, 65M parameters": 27.3, "big, 213M parameters": 28.4}


#: The paper's last checkpoints that were averaged (section 6.1).
PAPER_AVERAGES = {"base": 5.0, "big": 20.0}
#: Ages of gradients, in updates, and lengths of sentences, in tokens.
AGES, LENGTHS = (1, 10, 50, 100), (5, 10, 20, 40, 80)


def pairs_by_length(facts: TrainingFacts, length: int) -> dict[str, float]:
    """Pairs per batch by length, with the sentence on the left marked."""
    room = facts.recipe.batch_tokens
    return {f"{n} tokens": float(max(room // n, 1)) for n in sorted({*LENGTHS, length})}


def hours_by_part(facts: TrainingFacts) -> dict[str, float]:
    """Hours of each part of the training; the paper's if one is unknown."""
    if not (facts.own and facts.hours_in_all):
        return {"the paper's base model": PAPER_PART.hours}
    return {f"part {number}": part.hours for number, part in enumerate(facts.parts, start=1)}


def memory_by_age(facts: TrainingFacts) -> dict[str, float]:
    """The weight of older gradients in Adam's two means, against the newest."""
    means = {"gradient": facts.recipe.beta1, "square": facts.recipe.beta2}
    return {
        f"{name}, {age} update{'s' if age > 1 else ''} ago": beta**age
        for name, beta in means.items()
        for age in AGES
    }


def numbers_dropped(facts: TrainingFacts) -> dict[str, float]:
    """Average number of a token's values that dropout sets to 0."""
    p = facts.dropout or 0.1
    return {
        "set to 0": p * facts.d_model,
        f"kept, times {1 / (1 - p):.2f}": (1 - p) * facts.d_model,
    }


def bleu_by_average(facts: TrainingFacts) -> dict[str, float]:
    """BLEU by the epochs averaged; the paper's numbers of checkpoints if only one was tried."""
    found = {f"{n} epoch{'s' if n > 1 else ''}": bleu for n, bleu in facts.averages}
    return found if len(found) > 1 else PAPER_AVERAGES


def batch_exhibit(facts: TrainingFacts, length: int) -> Exhibit:
    """Pairs in a batch by length."""
    return _bars(
        "batch-by-length", "Pairs in a batch", "pairs",
        f"{whose(facts)}: room for {facts.recipe.batch_tokens:,} tokens (section 5.1).",
        pairs_by_length(facts, length),
        f"lengths = np.array({sorted({*LENGTHS, length})!r})\n"
        f"values = np.maximum({facts.recipe.batch_tokens!r} // lengths, 1)\n",
    )  # fmt: skip


def hours_exhibit(facts: TrainingFacts, checkpoint: str) -> Exhibit:
    """Hours of the training by part."""
    own = facts.own and facts.hours_in_all > 0
    program = f"values = np.array([{PAPER_PART.hours!r}])\n"
    if own:
        program = _metrics(checkpoint) + (
            'parts = [*(metrics.get("earlier_parts") or []), metrics["training"]]\n'
            'values = np.array([part["hours"] for part in parts])\n'
        )
    caption = f"{checkpoint} (section 5.2)." if own else "The paper's base model (section 5.2)."
    return _bars(
        "training-hours", "Hours of training", "hours", caption, hours_by_part(facts), program
    )


def memory_exhibit(facts: TrainingFacts) -> Exhibit:
    """Weights of older gradients in Adam's averages."""
    betas = [facts.recipe.beta1, facts.recipe.beta2]
    return _bars(
        "adam-memory", "What Adam remembers", "weight, newest 1",
        f"{whose(facts)}: β₁ = {betas[0]:g}, β₂ = {betas[1]:g} (section 5.3).",
        memory_by_age(facts),
        f"values = (np.array({betas!r})[:, None] ** np.array({list(AGES)!r})).ravel()\n",
    )  # fmt: skip


def dropout_exhibit(facts: TrainingFacts) -> Exhibit:
    """The numbers of a token that dropout sets to 0."""
    p = facts.dropout or 0.1
    return _bars(
        "dropout", "What dropout leaves", "numbers of a token",
        f"p = {p:g}, d_model = {facts.d_model} (section 5.4).",
        numbers_dropped(facts),
        f"p, d_model = {p!r}, {facts.d_model!r}\nvalues = np.array([p, 1 - p]) * d_model\n",
    )  # fmt: skip


def averages_exhibit(facts: TrainingFacts, checkpoint: str) -> Exhibit:
    """BLEU by the number of epochs averaged."""
    found = bleu_by_average(facts)
    if found is PAPER_AVERAGES:
        caption, label = "The paper's models (section 6.1).", "checkpoints averaged"
        program = f"values = np.array({list(found.values())!r})\n"
    else:
        caption, label = f"{checkpoint}, greedy, validation text.", "BLEU"
        program = _metrics(checkpoint) + (
            "scores = {\n"
            '    row["averaged_epochs"]: row["val_bleu"]\n'
            '    for row in metrics["tried_on_val"]\n'
            '    if row["beam_size"] == 1 and not row.get("mixed_share") and row["val_bleu"] > 0\n'
            "}\n"
            "values = np.array([scores[n] for n in sorted(scores)])\n"
        )
    return _bars("averaged-checkpoints", "Averaged weights", label, caption, found, program)


def _bars(
    name: str, title: str, label: str, caption: str, found: Mapping[str, float], program: str
) -> Exhibit:
    """Named numbers; `program` makes their `values`."""
    names, values = tuple(found), np.array(list(found.values()))
    imports = "" if "import numpy" in program else numpy_imports()
    return Exhibit(
        name=name,
        title=title,
        caption=caption,
        parts=(Series(title, names, {label: values}, "", label, "bar"),),
        arrays={"names": np.array(names), "values": values},
        snippet=f"{imports}{program}names = np.array({list(names)!r})\n",
    )


def target_shares(facts: TrainingFacts) -> dict[str, float]:
    """The training target at one position, by token; the right token comes first."""
    right, each = smoothed_target(facts.recipe.label_smoothing or 0.1, facts.vocab_size)
    return {
        "the right token": right,
        "each other token": each,
        f"all {facts.vocab_size - 1:,} others together": each * (facts.vocab_size - 1),
    }


def bleu_by_setting(facts: TrainingFacts) -> dict[str, float]:
    """BLEU by setting; the paper's if the checkpoint names none."""
    found = {str(decoding): score for decoding, score in facts.tried if score > 0}
    return found or PAPER_SCORES


def rate_exhibit(facts: TrainingFacts) -> Exhibit:
    """The learning rate of every update."""
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


def smoothing_exhibit(facts: TrainingFacts) -> Exhibit:
    """The target distribution with label smoothing."""
    target = target_shares(facts)
    epsilon = facts.recipe.label_smoothing or 0.1
    names, shares = tuple(target), np.array(list(target.values()))
    return Exhibit(
        name="label-smoothing",
        title="What the model is asked to say",
        caption=f"Label smoothing {epsilon:g} over {facts.vocab_size:,} tokens (section 5.4).",
        parts=(Series("share of the target", names, {"share": shares}, "", "share", "bar"),),
        arrays={"names": np.array(names), "shares": shares},
        snippet=numpy_imports("from transformer.training.objective import smoothed_target")
        + f"vocab_size = {facts.vocab_size!r}\n"
        f"right, each = smoothed_target({epsilon!r}, vocab_size)\n"
        f"names = np.array({list(names)!r})\n"
        "shares = np.array([right, each, each * (vocab_size - 1)])\n",
    )


def scores_exhibit(facts: TrainingFacts, checkpoint: str) -> Exhibit:
    """BLEU of what was tried, by a checkpoint of this name or by the paper."""
    found = bleu_by_setting(facts)
    names, scores = tuple(found), np.array(list(found.values()))
    own = found is not PAPER_SCORES
    return Exhibit(
        name="bleu-by-setting",
        title="BLEU by setting",
        caption=f"{checkpoint}, validation text."
        if own
        else "The paper's table 2, newstest2014 English to German.",
        parts=(Series("BLEU", names, {"BLEU": scores}, "", "BLEU", "bar"),),
        arrays={"names": np.array(names), "bleu": scores},
        snippet=_read(checkpoint)
        if own
        else numpy_imports() + f"names = np.array({list(names)!r})\n"
        f"bleu = np.array({[float(score) for score in scores]!r})\n",
    )


def _metrics(checkpoint: str, *imports: str) -> str:
    """A program that reads what a checkpoint says of its training."""
    return (
        roots_lines("from transformer.catalogue import inspect_entry", *imports)
        + f"metrics = inspect_entry(path_of({checkpoint!r})).metrics\n"
    )


def _read(checkpoint: str) -> str:
    """A program that reads the scores of a checkpoint from its files."""
    return (
        _metrics(checkpoint, "from transformer.search.decoding import Decoding")
        + 'kept = metrics.get("chosen_on_val", {}).get("averaged_epochs")\n'
        "found = {\n"
        '    str(Decoding(row["beam_size"], row["alpha"])): row["val_bleu"]\n'
        '    for row in metrics["tried_on_val"]\n'
        '    if row.get("averaged_epochs") == kept and row["val_bleu"] > 0\n'
        "}\n"
        "names, bleu = np.array(list(found)), np.array(list(found.values()))\n"
    )
