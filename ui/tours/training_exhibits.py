"""The figures of the training tour."""

from __future__ import annotations

import numpy as np

from figures.exhibit import Exhibit, Series
from transformer.training.objective import smoothed_target
from ui.export.programs import numpy_imports, roots_lines
from ui.tours.training import TrainingFacts, whose

#: The paper's table 2, newstest2014 English to German.
PAPER_SCORES = {"base, 65M parameters": 27.3, "big, 213M parameters": 28.4}


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


def _read(checkpoint: str) -> str:
    """A program that reads the scores of a checkpoint from its files."""
    return (
        roots_lines(
            "from transformer.checkpoint.folder import inspect_checkpoint",
            "from transformer.search.decoding import Decoding",
        )
        + f"metrics = inspect_checkpoint(path_of({checkpoint!r})).metrics\n"
        'kept = metrics.get("chosen_on_val", {}).get("averaged_epochs")\n'
        "found = {\n"
        '    str(Decoding(row["beam_size"], row["alpha"])): row["val_bleu"]\n'
        '    for row in metrics["tried_on_val"]\n'
        '    if row.get("averaged_epochs") == kept and row["val_bleu"] > 0\n'
        "}\n"
        "names, bleu = np.array(list(found)), np.array(list(found.values()))\n"
    )
