"""Maps of a measure in place of weights, from which every picture of a trace is drawn.

    trace = measured(model, trace, "norm")
    trace.attention("cross")                      # [L, H, T, S], rows are shares of norms
    trace.cells.wide["cross"][2, -1]              # all heads of layer 3 together

Rows of "norm", "zeroing" and "contribution" are shares: each row is divided by its sum, which for
the contribution of a cross-attention block counts the residual stream. "effect" is the signed
change of the token's log-probability, in nats, and measured for the places asked for alone.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from transformer.attribution.edges import edges, row_shares
from transformer.attribution.effects import effects
from transformer.errors import InputError
from transformer.measures.heads import widen
from transformer.measures.sinks import key_classes
from transformer.model import Transformer
from transformer.search.request import excluded
from transformer.trace.records import CellMeasure, Cells, Trace
from transformer.trace.tracer import Tracer
from transformer.types import ATTENTION_KINDS, AttentionKind, Floats, Report, literals

#: A kind with a layer and a head, 0-based; None for all of them together.
Place = tuple[AttentionKind, int | None, int | None]

#: Largest number of edges of one kind that effects are measured for: 256 by 256 tokens.
MOST_EDGES = 65_536


def why_weight_only(model: Tracer) -> str | None:
    """Return why a model has weights but no other measure, as one sentence, or None."""
    if isinstance(getattr(model, "model", None), Transformer):
        return None
    if model.lacks("any_sentence") is not None:
        return (
            "This file holds recorded attention; other measures need the model's value vectors "
            "and a model that runs."
        )
    return (
        "Other measures split the blocks of an encoder-decoder of this project; this model is "
        "built otherwise, and its maps show weights."
    )


def why_no_effect(kind: AttentionKind, n: int, m: int) -> str | None:
    """Return why the edges of a kind with n queries and m keys have no effect, or None."""
    if kind == "encoder_self":
        return (
            "An edge of the encoder belongs to no step of the translation: it changes what every "
            "step reads, so no single token's probability is its effect."
        )
    if n * m > MOST_EDGES:
        return f"Effects are measured for up to {MOST_EDGES:,} edges; these texts have {n * m:,}."
    return None


@literals
def measured(
    model: Tracer, trace: Trace, measure: CellMeasure = "weight", *,
    places: Sequence[Place] = (), words_only: bool = False, progress: Report | None = None,
) -> Trace:  # fmt: skip
    """Return a trace whose maps hold a measure.

    Args:
        model: the model of the trace.
        places: for "effect": maps to measure, one cut in every step each; others stay 0.
        words_only: set the columns of other keys to 0 and divide shares by what is left.
        progress: called with (work done, all of it); may raise to stop.

    Raises: `InputError` for a model or places without this measure.
    """
    gap = 0.0
    if measure == "weight":
        wide = {kind: widen(trace.attention(kind)) for kind in ATTENTION_KINDS}
    elif (reason := why_weight_only(model)) is not None:
        raise InputError(reason)
    elif measure == "effect":
        wide = _effects(model, trace, places, progress)
    else:
        network: Any = model
        of = edges(network.model, trace, measure, progress=progress)
        gap = of.gap
        wide = {
            kind: _widened(row_shares(of.heads[kind]),
                           row_shares(of.blocks[kind], of.streams[kind]))
            for kind in ATTENTION_KINDS
        }  # fmt: skip
    if words_only:
        wide = {kind: _words(trace, kind, maps, measure) for kind, maps in wide.items()}
    maps = {str(kind): wide[kind][:-1, :-1] for kind in ATTENTION_KINDS}
    cells = Cells(measure, wide, words_only, gap)
    return replace(trace, **maps, cells=cells, search=None)  # type: ignore[arg-type]


def _widened(heads: Floats, blocks: Floats) -> Floats:
    """Append blocks [L, n, m] to heads [L, H, n, m], and the means over layers of both."""
    wide = np.concatenate([heads, blocks[:, None]], axis=1)
    return np.concatenate([wide, wide.mean(0, keepdims=True)])


def _effects(
    model: Any, trace: Trace, places: Sequence[Place], progress: Report | None
) -> dict[AttentionKind, Floats]:
    wide = {}
    for kind in ATTENTION_KINDS:
        n_layers, n_heads, n, m = trace.attention(kind).shape
        wide[kind] = np.zeros((n_layers + 1, n_heads + 1, n, m), np.float32)
    for done, (kind, layer, head) in enumerate(places):
        reason = why_no_effect(kind, *trace.attention(kind).shape[2:])
        if reason is not None:
            raise InputError(reason)

        def step(at: int, most: int, done: int = done) -> None:
            if progress is not None:
                progress(100 * done + 100 * at // most, 100 * len(places))  # in percent of a place

        at = tuple(-1 if index is None else index for index in (layer, head))
        never = excluded(model.config)
        wide[kind][at] = effects(
            model.model, trace, kind, layer, head, excluded=never, progress=step
        )
    return wide


def _words(trace: Trace, kind: AttentionKind, maps: Floats, measure: CellMeasure) -> Floats:
    special = trace.tgt_special if kind == "decoder_self" else trace.src_special
    classes = key_classes(trace.axis_tokens(kind)[1], special)
    kept = np.where([name == "word" for name in classes], maps, np.float32(0))
    return kept if measure == "effect" else row_shares(kept)
