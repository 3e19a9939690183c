"""The Family page's figures for download."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from figures.exhibit import Exhibit
from figures.family import guesses_exhibit, source_exhibit
from figures.labels import row_labels
from transformer.measures.alignment import source_block
from transformer.one_stack.tracer import Guesses
from transformer.trace.records import Trace
from transformer.types import Floats
from ui.export.programs import Source, header, roots_lines

#: Candidates shown at a place.
TOP = 10


def opened(sentence: str) -> str:
    """Return a text without the marks that end a sentence, after which nothing would follow."""
    return sentence.rstrip(" .!?…") or sentence


def next_tokens(trace: Trace) -> tuple[Guesses, ...]:
    """Return what a causal trace expects at each place after its first, as guesses."""
    places = zip(
        trace.predicted_tokens, trace.top_tokens, trace.top_log_probs, trace.log_probs, strict=True
    )
    return tuple(
        Guesses(place, token, tokens, log_probs, float(log_prob))
        for place, (token, tokens, log_probs, log_prob) in enumerate(places, start=1)
    )


def expected_figure(
    source: Source, trace: Trace, guesses: tuple[Guesses, ...], n: int = 0, seed: int = 0
) -> Exhibit:
    """Return the figure of all places of a text.

    Args:
        source: of the text as typed.  trace: of the text, continued.
        n, seed: as for `continued`.
    """
    causal = bool(trace.tgt_tokens)
    known = [np.nan if each.log_prob is None else np.exp(each.log_prob) for each in guesses]
    program = header(source, "import numpy as np")
    drawn = f", sampling=Sampling(top_p=0.9, seed={seed})" if seed else ""
    if drawn:
        program = header(
            source, "import numpy as np",
            "from transformer.search.sampling import Sampling",
        )  # fmt: skip
    start = opened(trace.source)
    more = f"trace = model.trace({start!r}, new_tokens={n}{drawn})\n" if n else ""
    lines = (
        f"\n{more}probabilities = np.exp(trace.log_probs)\n"
        if causal
        else f"\nguesses = model.guesses(trace, {TOP})\n"
        "probabilities = np.array([\n"
        "    np.nan if each.log_prob is None else np.exp(each.log_prob) for each in guesses\n"
        "], np.float32)\n"
    )
    made = guesses_exhibit(
        [each.token for each in guesses],
        np.array(known, np.float32),
        [
            (f"place {each.position + 1}", each.tokens, np.exp(each.log_probs))
            for each in guesses[:TOP]
        ],
        what="How probable the model held each token, "
        + ("knowing those before it" if causal else "knowing all others")
        + f"; and the {TOP} most probable ones at the first places.",
        snippet=program + lines,
    )
    return replace(made, facts=source.facts(sentence=trace.source))


def looks(trace: Trace, layer: int, head: int) -> tuple[Floats, tuple[str, ...], tuple[str, ...]]:
    """Return where a translation looks in its source: weights [T, S], rows and columns.

    Of a model of one stack, the part of its map on the source.
    """
    if trace.cross.size:
        rows = row_labels(trace.tgt_tokens, trace.predicted_tokens)
        return trace.cross[layer, head], rows, trace.src_tokens
    block = source_block(trace)
    rows = row_labels(block.tgt_tokens, (*block.tgt_tokens[1:], trace.predicted_tokens[-1]))
    return block.weights[layer, head], rows, block.src_tokens


def looks_figure(
    sources: tuple[Source, Source],
    traces: tuple[Trace, Trace],
    heads: tuple[tuple[int, int], tuple[int, int]],
) -> Exhibit:
    """Return the figure of both translators' looks, two stacks first."""
    maps, program = (
        {},
        roots_lines(
            "from transformer.one_stack.tracer import StackModel",
            "from transformer.measures.alignment import source_block",
            "from transformer.translator import Translator",
        ),
    )
    for source, trace, (layer, head) in zip(sources, traces, heads, strict=True):
        two = bool(trace.cross.size)
        title = f"{source.checkpoint}: layer {layer + 1}, head {head + 1}"
        maps[title] = looks(trace, layer, head)
        name = "Translator" if two else "StackModel"
        arguments = "".join(f", {each}={value!r}" for each, value in source.arguments)
        program += (
            f"model = {name}.load(path_of({source.checkpoint!r}), device={source.device!r})\n"
            f"trace = model.trace({source.sentence!r}{arguments})\n"
        )
        program += (
            f"two_stacks = trace.cross[{layer}, {head}]\n"
            if two
            else f"one_stack = source_block(trace).weights[{layer}, {head}]\n"
        )
    return replace(source_exhibit(maps, program), facts={"Sentence": f"“{traces[0].source}”"})
