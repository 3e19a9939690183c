"""Figures of Translate that need the model: layer by layer, and shares in a choice."""

import re
from typing import NamedTuple

import numpy as np

from figures.exhibit import Exhibit, Panel, Series, file_stem
from figures.labels import READS_PREDICTS, numbered, plain_token, query_labels
from transformer.attribution.edges import Mix, edges, loose, mix
from transformer.measures.compare import not_shared
from transformer.search.records import Translation
from transformer.search.request import Progress, SearchOptions, excluded
from transformer.trace.records import Lens, Trace
from transformer.trace.stream import changes_without, lens, logit_shares
from transformer.translator import Translator
from transformer.worker.job import report
from ui.components.layers import columns, layers_component
from ui.export.programs import facts_of


def layer_table(model: Translator, trace: Trace) -> tuple[Lens, list[tuple[str, ...]]]:
    """Return the decoder's distributions after every layer, and top tokens [1 + Ld][T]."""
    result, spell = (
        lens(model.model, trace, excluded=excluded(model.config)),
        model.tokenizer.target,
    )
    return result, [
        tuple(spell.shown((token,), before)[0]
              for token, before in zip(row, trace.tgt_ids, strict=True))
        for row in result.top_ids.tolist()
    ]  # fmt: skip


def layer_by_layer(model: Translator, trace: Trace) -> Exhibit:
    """Return the decoder's distributions after every layer, at every step, as an exhibit."""
    result, tokens = layer_table(model, trace)
    rows, names = query_labels(trace, "cross"), tuple(columns(len(tokens) - 1))
    top, own = np.exp(result.top_log_probs.T), np.exp(result.log_probs.T)  # [T, 1 + Ld]
    step = f"step: {READS_PREDICTS}"
    return Exhibit(
        name=file_stem("layer by layer"),
        title="The decoder's prediction after every layer",
        caption="The residual stream after each decoder layer, read as if it were the last (logit "
        "lens): the probability of the most probable token, and of the token predicted in the end.",
        parts=(
            Panel("Most probable token", top, rows, names, step, "read after", quantity="p"),
            Panel("Token predicted in the end", own, rows, names, step, "read after",
                  quantity="p"),
        ),
        arrays={
            "top_tokens": np.array(tokens), "top_ids": result.top_ids,
            "top_log_probs": result.top_log_probs, "ranks": result.ranks,
            "log_probs": result.log_probs,
        },
        facts=facts_of(trace),
        offline=layers_component(trace, result, tokens).offline(),
    )  # fmt: skip


def earlier_layers(
    model: Translator, trace: Trace, progress: Progress | None = None
) -> list[Translation]:
    """Translate from each encoder layer's output, with a trace's search settings."""
    options: SearchOptions = {"progress": progress}
    if (search := trace.search) is None:
        return model.from_encoder_layers(trace.src_ids, **options)
    options |= {"prefix": trace.predicted_ids[: trace.n_forced], "sampling": search.sampling}
    return model.from_encoder_layers(trace.src_ids, search.beam_size, search.alpha, **options)


def from_encoder_layers(model: Translator, trace: Trace) -> Exhibit:
    """Return translations from each encoder layer's output as an exhibit."""
    result = earlier_layers(model, trace)
    last, shared = result[-1], np.ones((len(result), len(result[-1].tokens) + 1))
    for row, translation in zip(shared, result, strict=True):
        row[[*not_shared(translation.tokens, last.tokens)[1]]] = 0
        row[-1] = translation.complete
    rows = tuple(f"layer {n}" for n in range(1, len(result) + 1))
    tokens, title = (*last.tokens, "</s>"), "Tokens of the finished translation"
    return Exhibit(
        name=file_stem("from encoder layers"),
        title="The translation from each encoder layer",
        caption="The decoder reads each encoder layer's output in turn, skipping the later layers "
        "(DecoderLens): the tokens that it shares with the finished translation, in order.",
        parts=(Panel(title, shared, rows, tokens, "read from", "token", quantity="written"),),
        arrays={
            "texts": np.array([translation.text for translation in result]), "shared": shared,
            "log_probs": np.array([sum(translation.log_probs) for translation in result]),
        },
        facts=facts_of(trace),
    )  # fmt: skip


#: Parts whose effect is also measured.
MEASURED = 3


class Share(NamedTuple):
    """A part's share in the difference between two logits."""

    name: str
    share: float
    lost: float | None = None  # measured decrease without the part
    kind: str = ""
    #: layer, head: from 1, or 0
    layer: int = 0
    head: int = 0


def shares_of(
    model: Translator, trace: Trace, step: int, one: int, other: int
) -> tuple[float, list[Share]]:
    """Return the difference between two logits and the parts' shares, largest first."""
    result = logit_shares(model.model, trace, step, one, other)
    largest = [part for part, _ in result.parts[:MEASURED]]
    lost = [-each for each in changes_without(model.model, trace, result, largest)]
    token = plain_token(trace.tgt_tokens[step])
    names = {
        "decoder_self": "self-attention", "cross": "cross-attention", "bias": "biases",
        "feed_forward": "feed-forward", "embedding": f"embedding of {token}",
        "position": f"position {step + 1}",
    }  # fmt: skip
    rows = []
    for at, (part, share) in enumerate(result.parts):
        kind = part.kind or part.name
        layer, head = (0 if each is None else each + 1 for each in (part.layer, part.head))
        name = names[kind] + f" layer {layer}" * bool(layer) + f", head {head}" * bool(head)
        rows.append(Share(name, share, lost[at] if at < MEASURED else None, kind, layer, head))
    return result.difference, rows


def why_not(model: Translator, trace: Trace, step: int, one: int, other: int) -> Exhibit:
    """Return the parts' shares in the difference between two logits as an exhibit.

    Args:
        step: from 0.
        one, other: token ids; the difference is the logit of the first minus the second's.
    """
    difference, rows = shares_of(model, trace, step, one, other)
    spell, before = model.tokenizer.target.shown, trace.tgt_ids[step]
    first, second = (plain_token(spell((token,), before)[0]) for token in (one, other))
    lost = np.array([np.nan if row.lost is None else row.lost for row in rows])
    shares, largest = np.array([row.share for row in rows]), slice(0, 30)
    short = tuple(re.sub("(-attention)? layer |, head ", ".", row.name) for row in rows[largest])
    return Exhibit(
        name=file_stem("why", "step", step + 1, one, other),
        title=f"Why {first}, not {second}? Step {step + 1}",
        caption=f"The largest of {len(rows)} shares in the difference of the logits, "
        f"{difference:.3f}, with LayerNorm's scales fixed at their values; and what the "
        "difference loses if a part is removed, measured.",
        parts=(
            Series("Shares of the difference", short,
                   {"share": shares[largest], "lost without it": lost[largest]},
                   "part", "logit", "bar"),
        ),
        arrays={
            "names": np.array([row.name for row in rows]), "shares": shares, "lost": lost,
            "difference": np.array([difference]),
        },
        facts=facts_of(trace),
    )  # fmt: skip


def mix_of(model: Translator, trace: Trace) -> Mix:
    """Return the shares of source and prefix in every predicted token."""
    return mix(edges(model.model, trace, "contribution", progress=report))


def source_or_prefix(model: Translator, trace: Trace) -> Exhibit:
    """Return the shares of source and prefix in every predicted token as an exhibit."""
    result = mix_of(model, trace)
    rows, steps = query_labels(trace, "cross"), numbered(trace.predicted_tokens)
    lines = {"source": result.source_share, "prefix": 1 - result.source_share}
    query = f"step: {READS_PREDICTS}"
    return Exhibit(
        name=file_stem("source or prefix"),
        title="Source or prefix, token by token",
        caption="The share of the source and of the translation so far in every predicted token "
        "(ALTI+, Ferrando et al. 2022). Shares compare tokens; they are not amounts.",
        parts=(
            Series("Source and prefix", steps, lines, "predicted token", "share"),
            Panel("Shares of source tokens", result.source, rows, trace.src_tokens, query,
                  "source", quantity="share"),
            Panel("Shares of earlier tokens", result.prefix, rows, trace.tgt_tokens, query,
                  "prefix", quantity="share"),
        ),
        arrays={
            "source": result.source, "prefix": result.prefix,
            "source_share": result.source_share, "loose": loose(result.source_share),
        },
        facts=facts_of(trace),
    )  # fmt: skip
