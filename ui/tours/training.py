"""A tour of training (section 5), on a checkpoint's own recipe and results."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from figures.numbers import in_words
from transformer.search.decoding import Decoding
from transformer.training.objective import learning_rate, smoothed_target
from transformer.training.recipe import TrainingRecipe
from transformer.types import Floats
from ui.tours.stops import Question, Scene, Stop, Tour, among, numbers

#: The paper's base model (sections 5.1 to 5.4): updates, target tokens of a batch, width.
PAPER_UPDATES, PAPER_BATCH, PAPER_WIDTH = 100_000, 25_000, 512


@dataclass(frozen=True)
class TrainingFacts:
    """A checkpoint's training by its metrics.json; the paper's base model's if that says nothing.

    Attributes:
        own: whether the numbers are the checkpoint's own.
        continued: whether they are of a last part only, which began from trained weights.
        recipe: warm-up, peak rate, cooldown, label smoothing.
        updates, epochs, target_tokens, hours: its length; epochs and hours are 0 if unknown.
        longest: tokens of the longest target sentence, 0 if unknown.
        val_nll: loss on held-out text in nats a token, None if unknown.
        tried: (decoding, BLEU on validation) of one set of weights.
        tests: BLEU by the name of the test set.
        d_model, vocab_size: of the model meant.
    """

    own: bool
    continued: bool
    recipe: TrainingRecipe
    updates: int
    epochs: int
    target_tokens: int
    hours: float
    longest: int
    val_nll: float | None
    tried: tuple[tuple[Decoding, float], ...]
    tests: Mapping[str, float]
    d_model: int
    vocab_size: int

    @property
    def rates(self) -> tuple[np.ndarray[Any, np.dtype[np.int64]], Floats]:
        """About 400 updates, and the learning rate at each."""
        steps = np.unique(np.linspace(1, self.updates, 400).round().astype(np.int64))
        rates = [learning_rate(int(n), self.recipe, self.d_model, self.updates) for n in steps]
        return steps, np.array(rates, dtype=np.float32)


def _number(value: Any, default: float = 0.0) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if good else default


def _part(held: Any, name: str) -> Mapping[str, Any]:
    found = held.get(name) if isinstance(held, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def training_facts(scene: Scene) -> TrainingFacts:
    """Read a checkpoint's metrics.json, ignoring invalid values: anyone may have written it."""
    training = _part(scene.metrics, "training")
    said = _part(_part(training, "recipe"), "training")
    updates = min(int(_number(training.get("updates"))), 10**9)
    own = updates > 0 and bool(said)
    recipe = TrainingRecipe(label_smoothing=0.1)
    if own:
        recipe = TrainingRecipe(
            warmup=min(int(_number(said.get("warmup"), 4000)), 10**9),
            peak_lr=_number(said.get("peak_lr")),
            cooldown=min(max(_number(said.get("cooldown")), 0.0), 1.0),
            label_smoothing=min(max(_number(said.get("label_smoothing")), 0.0), 1.0),
        )
    nll = _number(training.get("val_nll"), -1)
    return TrainingFacts(
        own=own,
        continued=own and bool(said.get("init")),
        recipe=recipe,
        updates=updates if own else PAPER_UPDATES,
        epochs=int(_number(training.get("epochs"))) if own else 0,
        target_tokens=(
            int(_number(training.get("target_tokens"))) if own else PAPER_UPDATES * PAPER_BATCH
        ),
        hours=_number(training.get("hours")) if own else 12.0,
        longest=int(_number(training.get("longest_target"))) if own else 0,
        val_nll=nll if own and nll >= 0 else None,
        tried=_tried(scene.metrics),
        tests=_tests(scene.metrics),
        d_model=scene.config.d_model if own else PAPER_WIDTH,
        vocab_size=scene.config.vocab_size if own else 37_000,
    )


def _tried(metrics: Mapping[str, Any]) -> tuple[tuple[Decoding, float], ...]:
    rows = metrics.get("tried_on_val")
    found = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    kept = _part(metrics, "chosen_on_val").get("averaged_epochs")
    return tuple(
        (
            Decoding(int(_number(row.get("beam_size"))), _number(row.get("alpha"))),
            _number(row.get("val_bleu")),
        )
        for row in found
        if row.get("averaged_epochs") == kept and _number(row.get("beam_size")) > 0
    )


def _tests(metrics: Mapping[str, Any]) -> dict[str, float]:
    tests = _part(metrics, "tests")
    scores = {name: _part(tests, name).get("bleu") for name in tests}
    return {str(name): _number(score) for name, score in scores.items() if score is not None}


def whose(facts: TrainingFacts) -> str:
    """Return whose numbers these are, as the start of a sentence."""
    if facts.continued:
        return "The last part of this checkpoint's training"
    return "This checkpoint" if facts.own else "The paper's base model"


def how_long(hours: float) -> str:
    """Return a time with its unit, in minutes below an hour."""
    return f"{hours:.1f} hours" if hours >= 1 else f"{60 * hours:.0f} minutes"


def _how_much(scene: Scene) -> Question:
    facts = training_facts(scene)
    right = float(max(facts.target_tokens, 1))
    options, answer = numbers(right, [right / 100, right / 10, right * 10], in_words)
    again = f" in {facts.epochs} epochs (passes over the text)" if facts.epochs else ""
    took = f", {how_long(facts.hours)}" if facts.hours else ""
    if facts.continued:
        said = (
            "This checkpoint began from weights that had been trained before. The last part of its "
            f"training had {facts.updates:,} updates{again}. About how many tokens of translation "
            "did it see there?"
        )
    else:
        said = (
            f"{whose(facts)} was trained for {facts.updates:,} updates{again}. About how many "
            "tokens of translation did it see?"
        )
    return Question(
        said,
        options,
        answer,
        f"{facts.target_tokens:,}, about {facts.target_tokens / facts.updates:,.0f} an update"
        f"{took}{', not counting what came before' if facts.continued else ''}. The paper's base "
        "model saw about 25,000 in each of 100,000 updates: 2.5 billion.",
    )


def _peak(scene: Scene) -> Question:
    facts = training_facts(scene)
    right = float(min(max(facts.recipe.warmup, 1), facts.updates))
    top = learning_rate(int(right), facts.recipe, facts.d_model, facts.updates)
    end = learning_rate(facts.updates, facts.recipe, facts.d_model, facts.updates)
    options, answer = numbers(
        right, [1, facts.updates / 2, facts.updates], lambda n: f"update {n:,.0f}"
    )
    falls = (
        f", and to {end:.1e} at the end" if facts.recipe.cooldown else f" ({end:.1e} at the end)"
    )
    return Question(
        f"The rate starts near zero. At which of the {facts.updates:,} updates "
        f"{'of the last part ' if facts.continued else ''}is it highest?",
        options,
        answer,
        f"At the end of the warm-up, update {right:,.0f}, where it is {top:.2e}. From there it "
        f"falls with one over the square root of the update{falls}.",
    )


def _smoothed(scene: Scene) -> Question:
    facts = training_facts(scene)
    epsilon = facts.recipe.label_smoothing or 0.1
    right, each = smoothed_target(epsilon, facts.vocab_size)
    options, answer = numbers(right, [1.0, epsilon, 0.5], lambda share: f"{100 * share:.4g}%")
    off = "" if facts.recipe.label_smoothing else " This one did without; take the paper's 0.1."
    return Question(
        f"With ε = {epsilon:g} and {facts.vocab_size:,} tokens in the vocabulary, which share of "
        f"the target is left for the right token?{off}",
        options,
        answer,
        f"1 − ε + ε / {facts.vocab_size:,} = {right:.6f}. Each of the others gets "
        f"{each:.1e}. The model learns to be less sure: that costs it some "
        "probability on held-out text (perplexity) but helps accuracy and BLEU, says the paper.",
    )


def _greedy_or_beam(scene: Scene) -> Question:
    facts = training_facts(scene)
    if len({score for _, score in facts.tried}) < 2:
        return Question(
            "Which of the paper's two models translates English to German better on newstest2014: "
            "base, with 65 million parameters, or big, with 213 million?",
            ("base", "big"),
            1,
            "28.4 BLEU against 27.3 (table 2). **BLEU** compares a translation with a human one; "
            "100 would be the same text.",
        )
    tried = list(dict.fromkeys(facts.tried))[:6]
    labels = [str(decoding) for decoding, _ in tried]
    scores = np.array([score for _, score in tried])
    right = int(scores.argmax())
    if len(set(labels)) < len(labels):
        labels = [f"{label} ({place})" for place, label in enumerate(labels, 1)]
    options, answer = among(right, [int(i) for i in np.argsort(scores)], labels, most=5)
    each = ", ".join(f"{label}: {score:.1f}" for label, score in zip(labels, scores, strict=True))
    tests = ", ".join(f"{score:.1f} on {name}" for name, score in facts.tests.items())
    return Question(
        "The same weights, different ways to decode. Which got the highest BLEU on the validation "
        "text?",
        options,
        answer,
        f"{each}. Settings are chosen on validation text, never on the test text"
        + (f"; there it scores {tests}." if tests else "."),
    )


TRAINING = Tour(
    "training",
    "Training",
    "What it was shown, how fast it learned, and how well.",
    "5",
    ":material/model_training:",
    (
        Stop(
            "What it read",
            "Training shows the model pairs of sentences and asks, at every place at once, for the "
            "next token of the translation. An **update** changes all weights a little after one "
            "batch of pairs.",
            "5.1, 5.2", "tours", _how_much,
        ),
        Stop(
            "Warm up, then slow down",
            "The **learning rate** is the size of the changes. It grows during the **warm-up** and "
            r"then falls: $d_\text{model}^{-0.5}\cdot\min(n^{-0.5},\;n\cdot\text{warmup}^{-1.5})$ "
            "for update $n$ (equation 3).",
            "5.3", "tours", _peak,
        ),
        Stop(
            "Not too sure",
            "**Label smoothing**: the target is not 1 for the right token and 0 for all others; a "
            "share ε is spread evenly over the vocabulary.",
            "5.4", "tours", _smoothed,
        ),
        Stop(
            "How well it does",
            "**BLEU** counts the runs of up to four words that a translation shares with a human "
            "one, from 0 to 100. It depends on the model and on how one decodes.",
            "6.1", "tours", _greedy_or_beam,
        ),
    ),
)  # fmt: skip
