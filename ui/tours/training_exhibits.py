"""What can be taken away from the tour of training: its three pictures as numbers and programs."""

from __future__ import annotations

import numpy as np

from figures.exhibit import Exhibit, Series
from ui.export.programs import roots_lines
from ui.tours.training import Told, whose

#: The paper's table 2, newstest2014 English to German.
PAPER_SCORES = {"base, 65M parameters": 27.3, "big, 213M parameters": 28.4}


def smoothed_target(facts: Told) -> dict[str, float]:
    """What one position is asked to say, by who gets the share; the first is the right token."""
    epsilon = facts.recipe.label_smoothing or 0.1
    each = epsilon / facts.vocab_size
    return {
        "the right token": 1 - epsilon + each,
        "each other token": each,
        f"all {facts.vocab_size - 1:,} others together": each * (facts.vocab_size - 1),
    }


def tried(facts: Told) -> dict[str, float]:
    """BLEU by setting, the paper's where the checkpoint says nothing."""
    found = {
        (f"beam {beam}, α {alpha:g}" if beam > 1 else "greedy"): score
        for beam, alpha, score in facts.tried
        if score > 0
    }
    return found or PAPER_SCORES


def rate_exhibit(facts: Told) -> Exhibit:
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
        snippet="import numpy as np\n\n"
        "from transformer.training.objective import learning_rate\n"
        "from transformer.training.recipe import TrainingRecipe\n\n"
        f"recipe = TrainingRecipe(\n    warmup={recipe.warmup!r}, peak_lr={recipe.peak_lr!r}, "
        f"cooldown={recipe.cooldown!r}\n)\n"
        f"d_model, n_updates = {facts.d_model!r}, {facts.updates!r}\n"
        "updates = np.unique(np.linspace(1, n_updates, 400).round().astype(np.int64))\n"
        "rates = np.array(\n"
        "    [learning_rate(int(n), recipe, d_model, n_updates) for n in updates],\n"
        "    dtype=np.float32,\n)\n",
    )


def smoothing_exhibit(facts: Told) -> Exhibit:
    """The target distribution with label smoothing."""
    target = smoothed_target(facts)
    epsilon = facts.recipe.label_smoothing or 0.1
    names, shares = tuple(target), np.array(list(target.values()))
    return Exhibit(
        name="label-smoothing",
        title="What the model is asked to say",
        caption=f"Label smoothing {epsilon:g} over {facts.vocab_size:,} tokens (section 5.4).",
        parts=(Series("share of the target", names, {"share": shares}, "", "share", "bar"),),
        arrays={"names": np.array(names), "shares": shares},
        snippet="import numpy as np\n\n"
        f"epsilon, vocab_size = {epsilon!r}, {facts.vocab_size!r}\n"
        "each = epsilon / vocab_size\n"
        f"names = np.array({list(names)!r})\n"
        "shares = np.array([1 - epsilon + each, each, each * (vocab_size - 1)])\n",
    )


def scores_exhibit(facts: Told, checkpoint: str) -> Exhibit:
    """BLEU of what was tried, by a checkpoint of this name or by the paper."""
    found = tried(facts)
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
        else f"import numpy as np\n\nnames = np.array({list(names)!r})\n"
        f"bleu = np.array({[float(score) for score in scores]!r})\n",
    )


def _read(checkpoint: str) -> str:
    """A program that reads the scores of a checkpoint from its files."""
    return (
        roots_lines("from transformer.checkpoint.folder import inspect_checkpoint")
        + f"metrics = inspect_checkpoint(path_of({checkpoint!r})).metrics\n"
        'kept = metrics.get("chosen_on_val", {}).get("averaged_epochs")\n'
        "found = {}\n"
        'for row in metrics["tried_on_val"]:\n'
        '    if row.get("averaged_epochs") == kept and row["val_bleu"] > 0:\n'
        '        beam, alpha = row["beam_size"], row["alpha"]\n'
        '        found[f"beam {beam}, α {alpha:g}" if beam > 1 else "greedy"] = row["val_bleu"]\n'
        "names = np.array(list(found))\n"
        "bleu = np.array(list(found.values()))\n"
    )
