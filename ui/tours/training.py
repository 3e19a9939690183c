"""A tour of training (section 5), on a checkpoint's own recipe and results."""

from __future__ import annotations

import numpy as np

from figures.markdown import plain
from figures.numbers import count, decimal, in_words
from transformer.training.objective import learning_rate, smoothed_target
from ui.tours.stops import Question, Scene, Stop, Tour, among, numbers
from ui.tours.training_facts import PAPER_PART, how_long, training_facts, whose

#: Updates after which the tour asks what Adam remembers.
AGE = 50


def _how_much(scene: Scene) -> Question:
    facts = training_facts(scene)
    right = float(max(facts.target_tokens, 1))
    options, answer = numbers(right, [right / 100, right / 10, right * 10], in_words)
    passes = "one pass" if facts.epochs == 1 else "passes"
    again = f" in {count(facts.epochs, 'epoch')} ({passes} over the text)" if facts.epochs else ""
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


def _batch(scene: Scene) -> Question:
    facts = training_facts(scene)
    room, length = facts.recipe.batch_tokens, length_of(scene)
    right = max(room // length, 1)
    options, answer = numbers(
        float(right), [max(right // 4, 1), 4 * right, room], lambda n: f"{n:,.0f}"
    )
    longest = f", and {max(room // facts.longest, 1):,} of the longest" if facts.longest else ""
    return Question(
        f"A batch of {'this checkpoint' if facts.own else 'the paper’s base model'} has room for "
        f"{room:,} tokens on the longer side, padding included. How many pairs as long as the one "
        f"on the left, {length} tokens, fit in?",
        options,
        answer,
        f"{room:,} / {length}, rounded down, is {right:,}{longest}. In a batch of all lengths, "
        "every sentence would be padded to the longest one. "
        f"An update held {facts.target_tokens / facts.updates:,.0f} target tokens on average.",
    )


def length_of(scene: Scene) -> int:
    """Return the tokens of the longer side of the sentence on the left."""
    return max(len(scene.trace.src_tokens), len(scene.trace.predicted_tokens), 1)


def _hours(scene: Scene) -> Question:
    facts = training_facts(scene)
    parts, hours = facts.parts, facts.hours_in_all
    if not hours:
        parts, hours = (PAPER_PART,), PAPER_PART.hours
    mine = parts is facts.parts and facts.own
    several = f"The {len(parts)} parts of its training ran" if len(parts) > 1 else "It was trained"
    options, answer = numbers(hours, [hours / 10, hours * 10, hours * 100], how_long)
    on = f" on {plain(parts[-1].hardware)}" if parts[-1].hardware else ""
    return Question(
        f"{several if mine else 'The paper’s base model was trained'}{on}. How long did that take?",
        options,
        answer,
        "The paper's base model took 12 hours on 8 P100 GPUs, 0.4 seconds an update; big took "
        "3.5 days.",
    )


def _remembered(scene: Scene) -> Question:
    recipe = training_facts(scene).recipe
    left = recipe.beta2**AGE
    options, answer = numbers(
        100 * left, [100, 100 / AGE, 100 * recipe.beta1**AGE], lambda share: f"{decimal(share, 2)}%"
    )
    return Question(
        f"Adam divides each step by the root of a running mean of squared gradients, with "
        f"β₂ = {recipe.beta2:g}. How much does a gradient of {AGE} updates ago still count there, "
        "against the newest?",
        options,
        answer,
        f"{recipe.beta2:g}^{AGE} = {decimal(left, 2)}. The mean of the gradients forgets faster: "
        f"β₁ = {recipe.beta1:g}, {recipe.beta1:g}^{AGE} = {decimal(recipe.beta1**AGE, 2)}. "
        f"ε = {decimal(recipe.epsilon)} keeps the division possible. The paper's are 0.9, 0.98 and "
        f"{decimal(1e-9)}.",
    )


def _dropped(scene: Scene) -> Question:
    facts = training_facts(scene)
    p, d_model = facts.dropout or 0.1, facts.d_model
    options, answer = numbers(
        p * d_model, [p * d_model / 10, d_model / 2, (1 - p) * d_model], lambda n: f"{n:.0f}"
    )
    off = "" if facts.dropout else " This one did without; take the paper's 0.1."
    return Question(
        f"With p = {p:g}, about how many of the d_model = {d_model} numbers that a sublayer adds "
        f"to one token are set to 0 in an update?{off}",
        options,
        answer,
        f"{p:g} · {d_model} = {p * d_model:.0f}, others in every update; the rest is multiplied by "
        f"1 / (1 − p) = {1 / (1 - p):.2f}, so that the mean stays. So no number can rely on a "
        "certain other one. When the model translates, nothing is dropped.",
    )


def _averaged(scene: Scene) -> Question:
    facts = training_facts(scene)
    if len(facts.averages) < 2:
        return Question(
            "From how many of its last checkpoints, written 10 minutes apart, are the weights of "
            "the paper's base model averaged?",
            ("1", "5", "10", "20"),
            1,
            "For the big model it is 20. Weights late in training circle around a minimum, and "
            "their mean lies nearer to it than each of them.",
        )
    scores = np.array([score for _, score in facts.averages[:6]])
    labels = [f"{n} epoch" if n == 1 else f"{n} epochs" for n, _ in facts.averages[:6]]
    options, answer = among(
        int(scores.argmax()), [int(i) for i in np.argsort(scores)], labels, most=5
    )
    each = ", ".join(f"{label}: {score:.1f}" for label, score in zip(labels, scores, strict=True))
    return Question(
        "The weights of this checkpoint's last epochs were averaged, over more and fewer of them. "
        "Which average got the highest BLEU on the validation text, greedy?",
        options,
        answer,
        f"{each}. The paper averages 5 checkpoints for base and 20 for big.",
    )


def _peak(scene: Scene) -> Question:
    facts = training_facts(scene)
    right = float(min(max(facts.recipe.warmup, 1), facts.updates))
    top = learning_rate(int(right), facts.recipe, facts.d_model, facts.updates)
    end = learning_rate(facts.updates, facts.recipe, facts.d_model, facts.updates)
    options, answer = numbers(
        right, [1, facts.updates / 2, facts.updates], lambda n: f"update {n:,.0f}"
    )
    last = f"{decimal(end, 2)} at the end"
    falls = f", and to {last}" if facts.recipe.cooldown else f" ({last})"
    return Question(
        f"The rate starts near zero. At which of the {facts.updates:,} updates "
        f"{'of the last part ' if facts.continued else ''}is it highest?",
        options,
        answer,
        f"At the end of the warm-up, update {right:,.0f}, where it is {decimal(top, 3)}. From "
        f"there it falls with one over the square root of the update{falls}.",
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
        f"1 − ε + ε / {facts.vocab_size:,} = {right:.7g}. Each of the others gets "
        f"{decimal(each, 3)}. The model learns to be less sure: that costs it some "
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
    "5, 6.1",
    ":material/model_training:",
    (
        Stop(
            "What it read",
            "Training shows the model pairs of sentences and asks, at every place at once, for the "
            "next token of the translation. An **update** changes all weights a little after one "
            "batch of pairs.",
            "5.1", "tours", _how_much,
        ),
        Stop(
            "Batches by length",
            "Sentences of about one length share a **batch**: shorter ones are padded, and padding "
            "is computed for nothing. So a batch has room for so many tokens, not for so many "
            "sentences.",
            "5.1", "tours", _batch,
        ),
        Stop(
            "Hardware and time",
            "Training goes over the text again and again; all positions of a sentence run at once, "
            "which is what the paper set out for.",
            "5.2", "tours", _hours,
        ),
        Stop(
            "Adam",
            "**Adam** keeps two running means for every weight, of its gradient and of the "
            "gradient's square, and steps by the one over the root of the other.",
            "5.3", "tours", _remembered,
        ),
        Stop(
            "Warm up, then slow down",
            "The **learning rate** is the size of the changes. It grows during the **warm-up** and "
            r"then falls: $d_\text{model}^{-0.5}\cdot\min(n^{-0.5},\;n\cdot\text{warmup}^{-1.5})$ "
            "for update $n$ (equation 3).",
            "5.3", "tours", _peak,
        ),
        Stop(
            "Dropout",
            "**Dropout** sets a random share of numbers to 0 in training: of what every sublayer "
            "adds, and of the sums of embeddings and positions.",
            "5.4", "tours", _dropped,
        ),
        Stop(
            "Not too sure",
            "**Label smoothing**: the target is not 1 for the right token and 0 for all others; a "
            "share ε is spread evenly over the vocabulary.",
            "5.4", "tours", _smoothed,
        ),
        Stop(
            "Average the last",
            "The weights at the end are the mean of the last few **checkpoints**, so that no "
            "single batch has the last word.",
            "6.1", "tours", _averaged,
        ),
        Stop(
            "How well it does",
            "**BLEU** counts the runs of up to four words that a translation shares with a human "
            "one, from 0 to 100. It depends on the model and on how one decodes.",
            "6.1", "tours", _greedy_or_beam,
        ),
    ),
)  # fmt: skip
