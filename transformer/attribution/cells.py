"""Maps of a measure in place of weights, from which every picture of a trace is drawn.

    trace = measured(model, trace, "norm")
    trace.attention("cross")                      # [L, H, T, S], rows are shares of norms
    trace.cells.wide["cross"][2, -1]              # all heads of layer 3 together

Rows of "norm", "zeroing" and "contribution" are shares: each row is divided by its sum, which for
the contribution of a cross-attention block counts the residual stream. "effect" is the signed
change of the token's log-probability, in nats, measured for some places alone.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from transformer.attribution.edges import edges, row_shares
from transformer.attribution.effects import effects
from transformer.config import ModelConfig
from transformer.errors import InputError
from transformer.measures.heads import key_classes, widen
from transformer.search.request import excluded
from transformer.trace.records import CellMeasure, Cells, Trace
from transformer.trace.tracer import Tracer
from transformer.types import ATTENTION_KINDS, AttentionKind, Floats, Report, literals

#: A kind with a layer and a head, 0-based; None for all of them together.
Place = tuple[AttentionKind, int | None, int | None]

#: Most weights in a trace for which other measures are computed; each takes as much memory.
MOST_WEIGHTS = 30_000_000

#: Most edges of one kind for which effects are measured: 256 by 256 tokens.
MOST_EDGES = 65_536


def why_weight_only(model: Tracer) -> str | None:
    """Return why a model has weights but no other measure, as one sentence, or None."""
    if hasattr(getattr(model, "model", None), "attention_block"):
        return None
    if model.lacks("any_sentence") is not None:
        return (
            "This file holds recorded attention; other measures need the model's value vectors "
            "and a model that runs."
        )
    return (
        "Other measures split the blocks of this project's models; this one is run by another "
        "library, and its maps show weights."
    )


def why_too_long(trace: Trace) -> str | None:
    """Return why a trace has too many weights for other measures, or None."""
    size = sum(trace.attention(kind).size for kind in ATTENTION_KINDS)
    if size <= MOST_WEIGHTS:
        return None
    return f"Measures are made for up to {MOST_WEIGHTS:,} weights; this text has {size:,}."


@literals
def why_no_effect(kind: AttentionKind, n: int, m: int) -> str | None:
    """Return why the edges of a kind with n queries and m keys have no effect, or None."""
    if kind == "encoder_self":
        return (
            "An edge of an encoder belongs to no step that writes a token: what it changes is read "
            "everywhere, so no single token's probability is its effect."
        )
    if n * m > MOST_EDGES:
        return f"Effects are measured for up to {MOST_EDGES:,} edges; this map has {n * m:,}."
    return None


@literals
def measured(
    model: Tracer, trace: Trace, measure: CellMeasure = "weight", *,
    kinds: Sequence[AttentionKind] = ATTENTION_KINDS, places: Sequence[Place] | None = None,
    words_only: bool = False, progress: Report | None = None,
) -> Trace:  # fmt: skip
    """Return a trace whose maps hold a measure.

    Args:
        model: the model of the trace.
        kinds: kinds of attention to measure; the maps of others are 0.
        places: for "effect": maps to measure, one cut in every step each; others stay 0. By
            default, all layers and heads together, for every kind of the decoder.
        words_only: set the columns of other keys to 0 and divide shares by what is left.
        progress: called with (blocks or steps done, all of them); may raise to stop.

    Raises: `InputError` for a model or places without this measure.
    """
    gap, kinds = 0.0, [kind for kind in kinds if trace.attention(kind).size]
    shapes = {kind: np.add(trace.attention(kind).shape, (1, 1, 0, 0)) for kind in ATTENTION_KINDS}
    wide = {kind: np.zeros(shape, np.float32) for kind, shape in shapes.items()}
    if measure == "weight":
        wide |= {kind: widen(trace.attention(kind)) for kind in kinds}
    elif (reason := why_weight_only(model) or why_too_long(trace)) is not None:
        raise InputError(reason)
    elif measure == "effect":
        if places is None:
            places = [(kind, None, None) for kind in kinds if kind != "encoder_self"]
        _fill_effects(wide, model, trace, places, progress)
    else:
        network: Any = model
        of = edges(network.model, trace, measure, kinds=kinds, progress=progress)
        gap = of.gap
        for kind in kinds:
            blocks = row_shares(of.blocks[kind], of.streams[kind])
            wide[kind] = _widened(row_shares(of.heads[kind]), blocks)
    if words_only:
        wide = {kind: _words(trace, kind, maps, measure) for kind, maps in wide.items()}
    return Cells(measure, wide, words_only, gap).instead_of_weights(trace)


def _widened(heads: Floats, blocks: Floats) -> Floats:
    """Append blocks [L, n, m] to heads [L, H, n, m], then the means of both over layers."""
    wide = np.concatenate([heads, blocks[:, None]], axis=1)
    return np.concatenate([wide, wide.mean(0, keepdims=True)])


def _fill_effects(
    wide: dict[AttentionKind, Floats], model: Any, trace: Trace, places: Sequence[Place],
    progress: Report | None,
) -> None:  # fmt: skip
    for done, (kind, layer, head) in enumerate(places):
        if (reason := why_no_effect(kind, *trace.attention(kind).shape[2:])) is not None:
            raise InputError(reason)
        step = progress and partial(_step, progress, done, len(places))
        at = tuple(-1 if index is None else index for index in (layer, head))
        never = excluded(model.config) if isinstance(model.config, ModelConfig) else ()
        wide[kind][at] = effects(
            model.model, trace, kind, layer, head, excluded=never, progress=step
        )


def _step(progress: Report, done: int, count: int, at: int, most: int) -> None:
    progress(done * most + at, count * most)


def _words(trace: Trace, kind: AttentionKind, maps: Floats, measure: CellMeasure) -> Floats:
    special = trace.tgt_special if kind == "decoder_self" else trace.src_special
    classes = key_classes(trace.axis_tokens(kind)[1], special)
    kept = np.where([name == "word" for name in classes], maps, np.float32(0))
    return kept if measure == "effect" else row_shares(kept)
