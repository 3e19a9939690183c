"""A tour of decoding: how probabilities become a sentence (sections 3.1, 3.4 and 6.1)."""

from __future__ import annotations

import math

import numpy as np

from figures.labels import plain_token, query_labels
from transformer.measures.entropy import nats_to_bits
from transformer.trace.records import Trace
from ui.tours.stops import (
    Question,
    Scene,
    Settings,
    Stop,
    Tour,
    among,
    cell,
    counts,
    names,
    numbers,
    quoted,
    shown,
    translation,
    two,
    words,
)


def open_step(trace: Trace) -> int:
    """Return the step whose most probable token is nearest to even odds."""
    return int(np.argmin(np.abs(np.exp(trace.top_log_probs[:, 0]) - 0.5)))


def _at_open_step(scene: Scene) -> Settings:
    return {"step": str(open_step(scene.trace) + 1), **cell(None, None)}


def _next_token(scene: Scene) -> Question:
    trace, t = scene.trace, open_step(scene.trace)
    right = shown(trace.predicted_tokens[t])
    others = [shown(token) for token in trace.top_tokens[t]]
    options = sorted(dict.fromkeys([right, *others[:5]]))[:5]
    if right not in options:
        options = sorted([right, *options[:4]])
    probability = math.exp(float(trace.log_probs[t]))
    return Question(
        f"The source is {quoted(trace.source)}. Written so far: {words(trace, t)}. "
        "Which token does the model write next?",
        two(options),
        options.index(right),
        f"{quoted(right)}, with a probability of {probability:.2f}. The bars show the whole "
        "choice: a probability for every token of the vocabulary, which sum to 1.",
    )


def _what_it_reads(scene: Scene) -> Question:
    trace, t = scene.trace, open_step(scene.trace)
    ranking = [t + 1, t - 1, *range(len(trace.tgt_tokens))]
    labels = names((*trace.tgt_tokens, trace.predicted_tokens[-1]))
    options, answer = among(t, [place for place in ranking if place >= 0], labels)
    row = quoted(plain_token(query_labels(trace, "cross")[t], 24))
    return Question(
        f"The translation is {translation(trace)}. Which token does the decoder read at position "
        f"{t + 1}, where it predicts **{quoted(shown(trace.predicted_tokens[t]))}**?",
        options,
        answer,
        f"The decoder wrote it one step before; position 1 reads `<s>`. The row is called {row}. "
        "In training, all positions of a known translation run at once, and none reads what it is "
        "to predict.",
    )


def _hardest(trace: Trace) -> tuple[int, list[int]]:
    """Return the step with the highest entropy, and the steps to choose from."""
    hardest = int(trace.entropy.argmax())
    others = [int(t) for t in np.argsort(-trace.entropy) if t != hardest]
    spread = others[:: max(1, len(others) // 3)][:3]
    return hardest, sorted({hardest, *spread})


def _least_sure(scene: Scene) -> Question:
    trace = scene.trace
    hardest, steps = _hardest(trace)
    entropy = nats_to_bits(trace.entropy)
    options = [f"step {t + 1}: {shown(trace.predicted_tokens[t])}" for t in steps]
    each = ", ".join(f"{entropy[t]:.2g}" for t in steps)
    return Question(
        f"The translation is {translation(trace)}. At which of these steps was the model least "
        "sure what to write?",
        two(options),
        steps.index(hardest),
        f"In this order, the entropy is {each} bit. **Entropy** says how open a choice is: 0 where "
        "one token is certain, 1 bit for a fair coin, 2 bits for four equal chances.",
    )


def _at_hardest(scene: Scene) -> Settings:
    return {"step": str(int(scene.trace.entropy.argmax()) + 1), **cell(None, None)}


def _against_greedy(scene: Scene) -> Question:
    trace = scene.trace
    leaves = [t for t, taken in enumerate(trace.predicted_ids) if taken != trace.top_ids[t, 0]]
    options, answer = counts(len(leaves), 0, 4)
    size = trace.search.beam_size if trace.search else 1
    if leaves:
        t = leaves[0]
        said = (
            f"First at step {t + 1}: {quoted(shown(trace.top_tokens[t][0]))} was the most probable "
            f"({math.exp(float(trace.top_log_probs[t, 0])):.2f}), and "
            f"{quoted(shown(trace.predicted_tokens[t]))} "
            f"({math.exp(float(trace.log_probs[t])):.2f}) won in the end."
        )
    else:
        said = "Here the simple way would have found the same sentence. It is not always so."
    return Question(
        f"The simplest way to write is **greedy**: always take the most probable token. A **beam** "
        f"keeps the {size} best beginnings instead. At how many steps does its winner, "
        f"{translation(trace)}, take a token that was not the most probable?",
        options,
        answer,
        f"At {len(leaves)} of {len(trace.predicted_ids)}. {said}",
    )


def _length_penalty(scene: Scene) -> Question:
    trace = scene.trace
    alpha = trace.search.alpha if trace.search else 0.6
    total, n = float(trace.log_probs.sum()), len(trace.predicted_ids)
    penalty = ((5 + n) / 6) ** alpha
    options, answer = numbers(trace.score, [total, total * penalty, total / n], _signed)
    return Question(
        f"The logarithms of the {n} probabilities add up to {_signed(total)}. Every further token "
        "makes that smaller, so short sentences would win. The score divides it by "
        f"((5 + {n}) / 6)^{alpha:g} = {penalty:.2f}. What is the score?",
        options,
        answer,
        f"{_signed(total)} / {penalty:.2f} = {_signed(trace.score)}. With α = 0 length would not "
        "count; a larger α favours longer sentences. The paper uses α = 0.6 and a beam of 4.",
    )


def _signed(number: float) -> str:
    return f"{number:.3g}".replace("-", "−")


_PAPER = {"beam": "4", "alpha": "0.6"}

DECODING = Tour(
    "decoding",
    "Decoding",
    "How probabilities become a sentence.",
    "3.1, 6.1",
    ":material/play_circle:",
    (
        Stop(
            "One token at a time",
            "The decoder reads what it has written so far and gives a probability to every token "
            "that could come next. One is taken, and it all begins again: the model is "
            "**auto-regressive**.",
            "3.1", "translate", _next_token, _PAPER, _at_open_step,
        ),
        Stop(
            "Shifted right",
            "The decoder's input is its own output, moved by one place: each token written drops "
            "one place to the right, where the next position reads it. **Play it.**",
            "3.1", "translate", _what_it_reads, {**_PAPER, "shifted": "on"}, _at_open_step,
        ),
        Stop(
            "How uncertain is the choice",
            "Some tokens follow almost by themselves, others are a real choice.",
            "3.4", "translate", _least_sure, _PAPER, _at_hardest,
        ),
        Stop(
            "Keep several beginnings",
            "The most probable token now may lead to a worse sentence later. A beam follows "
            "several at once and decides at the end.",
            "6.1", "beam", _against_greedy, _PAPER,
        ),
        Stop(
            "Fair to long sentences",
            "Probabilities are multiplied, that is, their logarithms are added. The **length "
            "penalty** makes sentences of different lengths comparable.",
            "6.1", "beam", _length_penalty, _PAPER,
        ),
    ),
)  # fmt: skip
