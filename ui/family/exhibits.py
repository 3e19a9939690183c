"""The Family page's figures for download."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from figures.exhibit import Exhibit, Panel, Series, file_stem
from figures.labels import numbered, row_labels
from transformer.measures.heads import Head
from transformer.measures.words import source_block
from transformer.models.one_stack.tracer import Guesses, StackModel
from transformer.search.inputs import checked_whole
from transformer.search.rules import Sampling
from transformer.trace.records import Trace
from transformer.types import Floats
from ui.export.programs import Source, call, facts_of, of_two

#: Number of candidates at a place.
TOP = 10


def opened(sentence: str) -> str:
    """Return a text without its final punctuation, so that a model can continue it."""
    return sentence.rstrip(" .!?…") or sentence


#: Placeholder for the token after a text, which is not there.
NEXT = "…"


def next_tokens(trace: Trace, new_tokens: int) -> tuple[Guesses, ...]:
    """Return a causal trace's predictions for each token after the first, as guesses.

    Without new tokens, the last place is the one after the text, without a probability.
    """
    places = zip(
        trace.predicted_tokens, trace.top_tokens, trace.top_log_probs, trace.log_probs, strict=True
    )
    written = len(trace.predicted_tokens) if new_tokens else trace.n_forced
    return tuple(
        Guesses(place, token, tokens, log_probs, float(log_prob))
        if place <= written
        else Guesses(place, NEXT, tokens, log_probs, None)
        for place, (token, tokens, log_probs, log_prob) in enumerate(places, start=1)
    )


def expected_tokens(model: StackModel, trace: Trace, new_tokens: int = 0, seed: int = 0) -> Exhibit:
    """Return a single-stack model's probability of each token of a text, as a figure.

    Args:
        new_tokens: maximum number of tokens to add.
        seed: random seed for sampling, or 0 for the most probable tokens.
    """
    causal = bool(trace.tgt_tokens)
    if causal:
        guesses = next_tokens(continued(model, trace, new_tokens, seed), new_tokens)
    else:
        guesses = model.guesses(trace, TOP)
    probabilities = probabilities_of(guesses)
    series = [("the text as it stands", [guess.token for guess in guesses], probabilities)]
    series += [
        (f"place {guess.position + 1}", list(guess.tokens), np.exp(guess.log_probs))
        for guess in guesses[:TOP]
    ]
    context = "given earlier tokens" if causal else "given all other tokens"
    return Exhibit(
        name=file_stem("expected tokens"),
        title="What the model expects",
        caption=f"Probability of each token, {context}; and the {TOP} most probable tokens at the "
        "first places.",
        parts=tuple(
            Series(title, numbered(tokens), {"probability": values}, "token", "probability", "bar")
            for title, tokens, values in series
        ),
        arrays={"probabilities": probabilities},
        facts=facts_of(trace),
        columns=1,
    )


def probabilities_of(guesses: Sequence[Guesses]) -> Floats:
    """Return each token's probability, NaN for a hidden token."""
    shares = [np.nan if guess.log_prob is None else np.exp(guess.log_prob) for guess in guesses]
    return np.array(shares, np.float32)


def continued(model: StackModel, trace: Trace, n: int, seed: int) -> Trace:
    """Continue a text by at most `n` tokens; see `expected_tokens`."""
    if not n:
        return trace
    start = opened(trace.source)
    room = model.max_tokens - len(model.tokenize(start).ids) - 1
    if room < 1:
        return trace
    sampling = Sampling(top_p=0.9, seed=seed) if seed else None
    return model.trace(start, new_tokens=min(n, room), sampling=sampling, top_k=TOP)


def looks(trace: Trace, layer: int, head: int) -> tuple[Floats, tuple[str, ...], tuple[str, ...]]:
    """Return a translation's weights on its source [T, S], with row and column labels.

    For a single-stack model, these are the source columns of its map.
    """
    maps = trace.cross if trace.cross.size else trace.decoder_self
    checked_whole("layer", layer, len(maps) - 1, 0)
    checked_whole("head", head, maps.shape[1] - 1, 0)
    if trace.cross.size:
        rows = row_labels(trace.tgt_tokens, trace.predicted_tokens)
        return trace.cross[layer, head], rows, trace.src_tokens
    block = source_block(trace)
    rows = row_labels(block.tgt_tokens, (*block.tgt_tokens[1:], trace.predicted_tokens[-1]))
    return block.weights[layer, head], rows, block.src_tokens


def one_stack_or_two(
    two: Trace, one: Trace, *, two_at: Head = (0, 0), one_at: Head = (0, 0)
) -> Exhibit:
    """Return where a two-stack and a single-stack translator look in a source, as a figure.

    Args: two, one: their traces.  two_at, one_at: their layers and heads, from 0.
    """
    panels, arrays = [], {}
    for name, trace, (layer, head) in (("two_stacks", two, two_at), ("one_stack", one, one_at)):
        weights, rows, columns = looks(trace, layer, head)
        title = f"{name.replace('_', ' ').capitalize()}: layer {layer + 1}, head {head + 1}"
        arrays[name] = weights
        panels.append(Panel(title, weights, rows, columns, "query: translation", "key: source"))
    return Exhibit(
        name=file_stem("one stack or two"),
        title="Where two translators look in a source",
        caption="Left: cross-attention of a two-stack model. Right: the source columns of a "
        "single-stack model's map; its rows therefore sum to less than 1.",
        parts=tuple(panels),
        arrays=arrays,
        facts=facts_of(two),
        columns=2,
    )


def looks_exhibit(
    sources: tuple[Source, Source], traces: tuple[Trace, Trace], heads: tuple[Head, Head]
) -> Exhibit:
    """Return `one_stack_or_two` with its program."""
    choice: dict[str, Any] = {"two_at": heads[0], "one_at": heads[1]}
    exhibit = one_stack_or_two(*traces, **choice)
    facts = {**exhibit.facts, "Checkpoint": " and ".join(source.checkpoint for source in sources)}
    program = of_two(sources, ("two", "one")) + call(exhibit, one_stack_or_two, choice)
    return replace(exhibit, facts=facts, snippet=program)
